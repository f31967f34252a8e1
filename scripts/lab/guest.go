package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"vionet/scripts/lab/job"
)

// Defaults of a Config.
const (
	defaultMemory    = 512
	defaultHugepages = 64
	defaultTimeout   = 2 * time.Minute
)

// Config is a guest. The zero value of a field stands for its default.
type Config struct {
	// Program is the program to run and its arguments: a path in the guest.
	// Its terminal is the guest's serial console.
	Program []string
	// Beside are programs, and their arguments, that run at the same time as
	// Program, three at most. Each has a serial line of its own, see
	// Guest.Beside, and ends with the guest.
	Beside [][]string
	// Files are files for the guest: path in the guest to path on the host.
	// All of them are executable there.
	Files map[string]string
	// Env is added to the program's environment, as KEY=value.
	Env []string
	// Dir is the program's working directory in the guest; default "/".
	Dir string

	// NICs are the guest's virtio-net functions.
	NICs []NIC
	// Driver takes all of them before the program runs: "vfio-pci" (the
	// default), "uio_pci_generic", or "none" to leave them alone.
	Driver string
	// Modules are loaded besides those of Driver, see VirtioModules.
	Modules []string
	// NoIOMMU leaves the virtual IOMMU out. vfio-pci needs it.
	NoIOMMU bool

	// Memory is the guest's memory in MiB; default 512.
	Memory int
	// Migrates says that the guest is to move to another QEMU, or to come from
	// one; see memory.
	Migrates bool
	// Hugepages of 2 MiB are set aside at boot; default 64, negative for
	// none.
	Hugepages int
	// CPUs is the number of processors; default 1.
	CPUs int
	// KVM has the host's processor run the guest, see KVM; otherwise the
	// processor is emulated.
	KVM bool
	// Arguments are added to QEMU's command line.
	Arguments []string

	// Namespace is the network namespace that QEMU runs in, for its taps;
	// nil is the caller's.
	Namespace *Namespace
	// Timeout ends the guest, however far it is; default two minutes.
	Timeout time.Duration
	// Mirror gets a copy of all that the serial console says.
	Mirror io.Writer
	// Person is true when a person is at the console: the terminal echoes.
	Person bool
	// Rows and Cols are the size of the terminal; default 24 by 80.
	Rows, Cols int
}

// withDefaults fills in what the caller left at zero.
func (cfg Config) withDefaults() Config {
	if cfg.Dir == "" {
		cfg.Dir = "/"
	}
	if cfg.Driver == "" {
		cfg.Driver = "vfio-pci"
	}
	if cfg.Memory == 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.Hugepages == 0 {
		cfg.Hugepages = defaultHugepages
	}
	if cfg.CPUs == 0 {
		cfg.CPUs = 1
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Rows == 0 || cfg.Cols == 0 {
		cfg.Rows, cfg.Cols = 24, 80
	}
	return cfg
}

// Guest is a running virtual machine. Its Console is the serial line: first
// the kernel's few words, then the program.
type Guest struct {
	*Process
	// Beside are the consoles of Config.Beside.
	Beside []*Console

	dir string // initramfs and sockets
}

// Start boots a guest and returns at once; the program's first words are to be
// expected some four seconds later. The guest ends with its program, with ctx,
// after Config.Timeout or by Close, which the caller must call.
func Start(ctx context.Context, cfg Config) (*Guest, error) {
	cfg = cfg.withDefaults()
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("the lab's guests are amd64 machines, this is %s", runtime.GOARCH)
	}
	kernel, err := Kernel(ctx, "")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "vionet-guest-")
	if err != nil {
		return nil, err
	}
	g, err := boot(ctx, cfg, kernel, dir)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return g, nil
}

// boot writes the initramfs into dir and starts QEMU.
func boot(ctx context.Context, cfg Config, kernel KernelImage, dir string) (*Guest, error) {
	if err := packGuest(ctx, cfg, kernel, dir); err != nil {
		return nil, err
	}
	lines, err := listen(dir, len(cfg.Beside))
	if err != nil {
		return nil, err
	}
	defer lines.close()
	argv := append([]string{"qemu-system-x86_64"}, cfg.qemu(kernel, dir)...)
	if cfg.Namespace != nil {
		argv = cfg.Namespace.wrap(argv)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	p, err := startProcess(ctx, cancel, exec.CommandContext(ctx, argv[0], argv[1:]...), cfg.Mirror)
	if err != nil {
		return nil, err
	}
	p.name = "guest"
	g := &Guest{Process: p, dir: dir}
	if g.Beside, err = lines.accept(p.done, cfg.Mirror); err != nil {
		p.Close()
		return nil, err
	}
	return g, nil
}

// packGuest builds init and writes dir/initramfs.
func packGuest(ctx context.Context, cfg Config, kernel KernelImage, dir string) error {
	init, err := Build(ctx, dir, "./scripts/lab/init")
	if err != nil {
		return err
	}
	files := map[string]string{"/init": init}
	for guest, host := range cfg.Files {
		files[guest] = host
	}
	modules, hosts := moduleFiles(kernel, append(driverModules(cfg.Driver), cfg.Modules...))
	for i, guest := range modules {
		files[guest] = hosts[i]
	}
	j := job.Job{
		Args: cfg.Program, Beside: cfg.Beside, Env: cfg.Env, Dir: cfg.Dir,
		Modules: modules, Driver: cfg.Driver,
		Echo: cfg.Person, Rows: uint16(cfg.Rows), Cols: uint16(cfg.Cols),
	}
	if j.Driver == "none" {
		j.Driver = ""
	}
	out, err := os.Create(filepath.Join(dir, "initramfs"))
	if err != nil {
		return err
	}
	err = writeInitramfs(out, j, files)
	return errors.Join(err, out.Close())
}

// driverModules are the modules behind Config.Driver.
func driverModules(driver string) []string {
	switch driver {
	case "vfio-pci":
		return VFIOModules
	case "uio_pci_generic":
		return UIOModules
	}
	return nil
}

// qemu is QEMU's command line. Unless the caller wants KVM, the machine is emulated
// (TCG), so it runs inside any other virtual machine too.
func (cfg Config) qemu(kernel KernelImage, dir string) []string {
	machine, processor := "q35", []string{"-accel", "tcg,thread=multi", "-cpu", "max"}
	if cfg.KVM { // an IOMMU that remaps interrupts wants them in user space
		machine, processor = "q35,kernel-irqchip=split", []string{"-accel", "kvm", "-cpu", "host"}
	}
	var argv []string
	if cfg.shared() {
		machine += ",memory-backend=ram"
		argv = append(argv, "-object", "memory-backend-memfd,id=ram,share=on,size="+cfg.memory())
	}
	argv = append(argv,
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", machine, "-smp", strconv.Itoa(cfg.CPUs), "-m", cfg.memory(),
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-monitor", "unix:"+monitorPath(dir)+",server=on,wait=off",
		"-kernel", kernel.Vmlinuz, "-initrd", filepath.Join(dir, "initramfs"),
		"-append", cfg.kernelLine())
	argv = append(argv, processor...)
	for i := range cfg.Beside {
		argv = append(argv, serialLine(dir, i)...)
	}
	if !cfg.NoIOMMU {
		argv = append(argv, "-device", "intel-iommu")
	}
	for i, nic := range cfg.NICs {
		argv = append(argv, nic.args(i, !cfg.NoIOMMU)...)
	}
	return append(argv, cfg.Arguments...)
}

// memory is the size of the guest's memory, as QEMU takes it. QEMU before 9.0 can
// miss what an emulated processor writes to a page that was copied already, and such
// a guest goes on with some pages as they were before. It misses nothing where it
// looks at pages one by one, as it does when their size is no multiple of 256 KiB.
func (cfg Config) memory() string {
	if cfg.Migrates {
		return fmt.Sprintf("%dK", cfg.Memory<<10+8)
	}
	return fmt.Sprintf("%dM", cfg.Memory)
}

// shared reports whether a back end maps the guest's memory.
func (cfg Config) shared() bool {
	for _, nic := range cfg.NICs {
		if nic.Net.shared() {
			return true
		}
	}
	return false
}

// kernelLine is the kernel's command line. A kernel that panics reboots, which
// ends QEMU. On a busy host the emulated timer may come too late for the
// kernel's check of it, hence no_timer_check.
func (cfg Config) kernelLine() string {
	line := "console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on"
	if cfg.Hugepages > 0 {
		line += fmt.Sprintf(" hugepages=%d", cfg.Hugepages)
	}
	if !cfg.NoIOMMU {
		line += " intel_iommu=on"
	}
	return line
}

// Wait waits for the end of the guest and gives the exit status of its
// program; a guest that died before it could tell is an error.
func (g *Guest) Wait(ctx context.Context) (int, error) {
	if _, err := g.Process.Wait(ctx); err != nil {
		return -1, err
	}
	text := g.Transcript()
	at := strings.LastIndex(text, "\n"+job.ExitMark)
	if at < 0 {
		return -1, fmt.Errorf("the guest died%s", g.last())
	}
	var status int
	if _, err := fmt.Sscanf(text[at+1+len(job.ExitMark):], "%d", &status); err != nil {
		return -1, fmt.Errorf("the guest's exit status cannot be read%s", g.last())
	}
	return status, nil
}

// Close ends the guest, as if its power failed, and removes its files. It may
// be called again.
func (g *Guest) Close() {
	g.Process.Close()
	os.RemoveAll(g.dir)
}
