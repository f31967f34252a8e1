package doctor

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci"
)

// Drivers of which a function that has them belongs to a program.
var uioDrivers = []string{pci.DriverUIOGeneric, pci.DriverUIOIntel}

// noIOMMUMode is the parameter that lets VFIO do without an IOMMU.
const noIOMMUMode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"

// machine is what the checks look at, all of it files below one directory.
type machine struct {
	tree      pci.Tree
	root      string
	release   string // of the kernel
	hugePages []mbuf.HugePages
	// open tries to open a device node for reading and writing.
	open func(path string) error
}

func newMachine(tree pci.Tree) *machine {
	m := &machine{tree: tree, root: tree.Root, open: openNode}
	if m.root == "" {
		m.root = "/"
	}
	m.release, _ = m.read("proc/sys/kernel/osrelease")
	m.hugePages = mbuf.ListHugePages(m.root)
	return m
}

// openNode opens and closes a node: the one test that shows whether another
// process has it.
func openNode(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func (m *machine) path(names ...string) string {
	return filepath.Join(append([]string{m.root}, names...)...)
}

// read gives a file's content without the final newline; ok is false when it
// can't be read.
func (m *machine) read(names ...string) (content string, ok bool) {
	b, err := os.ReadFile(m.path(names...))
	return string(bytes.TrimSpace(b)), err == nil
}

func (m *machine) exists(names ...string) bool {
	_, err := os.Stat(m.path(names...))
	return err == nil
}

// list gives the names in a directory; none when there is no such directory.
func (m *machine) list(names ...string) []string {
	entries, err := os.ReadDir(m.path(names...))
	if err != nil {
		return nil
	}
	found := make([]string, len(entries))
	for i, e := range entries {
		found[i] = e.Name()
	}
	return found
}

// moduleState says where a kernel module is.
type moduleState int

const (
	moduleLoaded moduleState = iota // or built in
	moduleAvailable
	moduleUnknown // not loaded, and there is no list of modules to look in
	moduleMissing
)

// module looks for a module; drivers for PCI functions are found by their
// driver, too.
func (m *machine) module(name string) moduleState {
	directory := strings.ReplaceAll(name, "-", "_")
	if m.exists("sys/module", directory) || m.tree.HasDriver(name) {
		return moduleLoaded
	}
	if builtin, _ := m.read("lib/modules", m.release, "modules.builtin"); listsModule(builtin, name) {
		return moduleLoaded
	}
	available, known := m.read("lib/modules", m.release, "modules.dep")
	switch {
	case !m.exists("proc/modules"):
		return moduleMissing // this kernel loads no modules at all
	case !known:
		return moduleUnknown
	case listsModule(available, name):
		return moduleAvailable
	}
	return moduleMissing
}

// listsModule looks for a module in modules.dep or modules.builtin, whose lines
// begin with its path. Hyphen and underscore are the same in names.
func listsModule(list, name string) bool {
	same := strings.NewReplacer("-", "_")
	for line := range strings.Lines(list) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		found, _, isModule := strings.Cut(filepath.Base(path), ".ko")
		if isModule && same.Replace(found) == same.Replace(name) {
			return true
		}
	}
	return false
}

// load is the command that loads a module, "" when it is loaded or can't be.
func (m *machine) load(name string) string {
	switch m.module(name) {
	case moduleLoaded, moduleMissing:
		return ""
	}
	return "modprobe " + name
}

// groups gives the IOMMU groups that an IOMMU stands behind. VFIO makes others
// for functions that it takes without one.
func (m *machine) groups() []int {
	var groups []int
	for _, name := range m.list("sys/kernel/iommu_groups") {
		if n, err := strconv.Atoi(name); err == nil && !m.unguarded(n) {
			groups = append(groups, n)
		}
	}
	slices.Sort(groups)
	return groups
}

// unguarded reports whether VFIO made the group for want of an IOMMU.
func (m *machine) unguarded(group int) bool {
	number := strconv.Itoa(group)
	name, _ := m.read("sys/kernel/iommu_groups", number, "name")
	return name == "vfio-noiommu" || m.exists("dev/vfio", noIOMMUPrefix+number)
}

// noIOMMUPrefix begins the name of such a group's node.
const noIOMMUPrefix = "noiommu-"

// status gives a field of /proc/self/status.
func (m *machine) status(field string) (value string, ok bool) {
	text, _ := m.read("proc/self/status")
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, ":"); found && name == field {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// can reports whether a capability is in effect.
func (m *machine) can(capability int) bool {
	hex, _ := m.status("CapEff")
	set, err := strconv.ParseUint(hex, 16, 64)
	return err == nil && set>>capability&1 == 1
}

// lockLimits gives the soft and the hard limit of locked memory in bytes, -1
// for none.
func (m *machine) lockLimits() (soft, hard int64, ok bool) {
	text, _ := m.read("proc/self/limits")
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, "Max locked memory")
		if f := strings.Fields(rest); found && len(f) >= 2 {
			return limit(f[0]), limit(f[1]), true
		}
	}
	return 0, 0, false
}

func limit(s string) int64 {
	if s == "unlimited" {
		return -1
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// freePages is the number of free hugepages of any size.
func (m *machine) freePages() int {
	free := 0
	for _, h := range m.hugePages {
		free += h.Free
	}
	return free
}

// hasKernelIOMMU reports whether the firmware describes an IOMMU, which a word
// on the kernel's command line may switch on.
func (m *machine) hasKernelIOMMU() bool {
	return m.exists("sys/firmware/acpi/tables/DMAR") || m.exists("sys/firmware/acpi/tables/IVRS")
}

// missing reports whether err says that there is no such file.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
