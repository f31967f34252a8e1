package pci

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/pci/pcitest"
)

// bindTree has an idle and a busy virtio function, one that is bound to
// vfio-pci, and a card of another kind without a driver.
func bindTree(t *testing.T) (*pcitest.Kernel, Tree) {
	k := pcitest.New(t)
	k.Add(pcitest.Function{BDF: "0000:00:01.0", Vendor: VendorVirtio, Device: DeviceNetModern, Driver: DriverVirtio, Group: 1, Interface: "eth1"})
	k.Add(pcitest.Function{BDF: "0000:00:02.0", Vendor: VendorVirtio, Device: DeviceNetModern, Driver: DriverVirtio, Group: 2, Interface: "eth0", Up: true})
	k.Add(pcitest.Function{BDF: "0000:00:03.0", Vendor: VendorVirtio, Device: DeviceNetModern, Driver: DriverVFIO, Group: 3})
	k.Add(pcitest.Function{BDF: "0000:00:04.0", Vendor: 0x8086, Device: 0x100e, Group: 4})
	return k, Tree{Root: k.Root, Store: k.Store}
}

func TestBind(t *testing.T) {
	const devices = "sys/bus/pci/devices/"
	for _, tt := range []struct {
		name   string
		do     func(Tree) error
		bdf    string
		driver string
		writes []string
	}{
		{
			name: "to vfio-pci", bdf: "0000:00:01.0", driver: "vfio-pci",
			do: func(t Tree) error { return t.Bind("vfio-pci", false, "00:01.0") },
			writes: []string{
				devices + "0000:00:01.0/driver_override vfio-pci",
				devices + "0000:00:01.0/driver/unbind 0000:00:01.0",
				"sys/bus/pci/drivers_probe 0000:00:01.0",
			},
		},
		{
			name: "a function without a driver", bdf: "0000:00:04.0", driver: "vfio-pci",
			do: func(t Tree) error { return t.Bind("vfio-pci", false, "00:04.0") },
			writes: []string{
				devices + "0000:00:04.0/driver_override vfio-pci",
				"sys/bus/pci/drivers_probe 0000:00:04.0",
			},
		},
		{
			name: "with force", bdf: "0000:00:02.0", driver: "vfio-pci",
			do: func(t Tree) error { return t.Bind("vfio-pci", true, "00:02.0") },
			writes: []string{
				devices + "0000:00:02.0/driver_override vfio-pci",
				devices + "0000:00:02.0/driver/unbind 0000:00:02.0",
				"sys/bus/pci/drivers_probe 0000:00:02.0",
			},
		},
		{
			name: "as it is", bdf: "0000:00:03.0", driver: "vfio-pci",
			do:     func(t Tree) error { return t.Bind("vfio-pci", false, "00:03.0") },
			writes: []string{devices + "0000:00:03.0/driver_override vfio-pci"},
		},
		{
			name: "give back", bdf: "0000:00:03.0", driver: "virtio-pci",
			do: func(t Tree) error { return t.Release(false, "00:03.0") },
			writes: []string{
				devices + "0000:00:03.0/driver_override ",
				devices + "0000:00:03.0/driver/unbind 0000:00:03.0",
				"sys/bus/pci/drivers_probe 0000:00:03.0",
			},
		},
		{
			name: "bind to virtio-pci needs no override", bdf: "0000:00:03.0", driver: "virtio-pci",
			do: func(t Tree) error { return t.Bind("virtio-pci", false, "00:03.0") },
			writes: []string{
				devices + "0000:00:03.0/driver_override ",
				devices + "0000:00:03.0/driver/unbind 0000:00:03.0",
				"sys/bus/pci/drivers_probe 0000:00:03.0",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, tree := bindTree(t)
			if err := tt.do(tree); err != nil {
				t.Fatal(err)
			}
			if got := k.DriverOf(tt.bdf); got != tt.driver {
				t.Errorf("driver %q, want %q", got, tt.driver)
			}
			if diff := cmp.Diff(tt.writes, k.Writes); diff != "" {
				t.Errorf("writes (-want +got)\n%s", diff)
			}
		})
	}
}

// A card that is no virtio device is left without a driver.
func TestReleaseOther(t *testing.T) {
	k, tree := bindTree(t)
	if err := tree.Bind(DriverVFIO, false, "00:04.0"); err != nil {
		t.Fatal(err)
	}
	if err := tree.Release(false, "00:04.0"); err != nil {
		t.Fatal(err)
	}
	if got := k.DriverOf("0000:00:04.0"); got != "" {
		t.Errorf("driver %q, want none", got)
	}
	if got := k.Override("0000:00:04.0"); got != "(null)" {
		t.Errorf("override %q, want none", got)
	}
}

// What is refused changes nothing, also of the functions before it.
func TestBindRefused(t *testing.T) {
	const route4 = "eth1\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	const route6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth1\n"
	noIOMMU := func(k *pcitest.Kernel) {
		k.Add(pcitest.Function{BDF: "0000:00:05.0", Vendor: VendorVirtio, Device: DeviceNetModern})
	}
	const parameter = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
	for _, tt := range []struct {
		name   string
		change func(*pcitest.Kernel)
		bdfs   []string
		force  bool
		err    error
		text   string
	}{
		{name: "interface is up", bdfs: []string{"00:01.0", "00:02.0"}, err: ErrInUse, text: "0000:00:02.0: check: in use: eth0 is up"},
		{name: "IPv4 default route", change: func(k *pcitest.Kernel) { k.SetRoutes(route4, "") }, bdfs: []string{"00:01.0"}, err: ErrInUse, text: "eth1 carries the default route"},
		{name: "IPv6 default route", change: func(k *pcitest.Kernel) { k.SetRoutes("", route6) }, bdfs: []string{"00:01.0"}, err: ErrInUse, text: "eth1 carries the default route"},
		{name: "module missing", change: func(k *pcitest.Kernel) { k.RemoveDriver("vfio-pci") }, bdfs: []string{"00:01.0"}, err: ErrNoDriver, text: "modprobe vfio-pci"},
		{name: "no IOMMU, no such mode", change: noIOMMU, bdfs: []string{"00:01.0", "00:05.0"}, err: ErrNoIOMMU, text: "no VFIO_NOIOMMU: give the machine an IOMMU and boot with intel_iommu=on"},
		{
			name: "no IOMMU, mode is off", bdfs: []string{"00:05.0"}, err: ErrNoIOMMU, text: "write Y to /" + parameter,
			change: func(k *pcitest.Kernel) { noIOMMU(k); k.WriteFile(parameter, "N\n") },
		},
		{
			name: "group has other members", bdfs: []string{"00:01.0"}, force: true, err: ErrGroupShared,
			text: "kernel drivers: 0000:00:01.1 (virtio-pci), 0000:00:01.2 (e1000): bind them too",
			change: func(k *pcitest.Kernel) {
				k.AddDriver("e1000", nil)
				k.AddDriver("pcieport", nil)
				k.Add(pcitest.Function{BDF: "0000:00:01.1", Vendor: VendorVirtio, Device: 0x1042, Driver: "virtio-pci", Group: 1})
				k.Add(pcitest.Function{BDF: "0000:00:01.2", Vendor: 0x8086, Device: 0x100e, Driver: "e1000", Group: 1})
				k.Add(pcitest.Function{BDF: "0000:00:01.3", Vendor: 0x8086, Device: 1, Group: 1})
				k.Add(pcitest.Function{BDF: "0000:00:01.4", Vendor: 0x8086, Device: 1, Driver: "pcieport", Class: 0x060400, Group: 1})
			},
		},
		{name: "no such function", bdfs: []string{"00:01.0", "00:1e.0"}, err: ErrNoFunction, text: "0000:00:1e.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, tree := bindTree(t)
			if tt.change != nil {
				tt.change(k)
			}
			err := tree.Bind(DriverVFIO, tt.force, tt.bdfs...)
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.err, tt.text)
			}
			if len(k.Writes) > 0 {
				t.Errorf("wrote %v", k.Writes)
			}
		})
	}
}

// Functions of one group may be bound together.
func TestBindGroup(t *testing.T) {
	k, tree := bindTree(t)
	k.Add(pcitest.Function{BDF: "0000:00:01.1", Vendor: VendorVirtio, Device: DeviceNetModern, Driver: DriverVirtio, Group: 1})
	if err := tree.Bind(DriverVFIO, false, "00:01.0", "00:01.1"); err != nil {
		t.Fatal(err)
	}
	if a, b := k.DriverOf("0000:00:01.0"), k.DriverOf("0000:00:01.1"); a != DriverVFIO || b != DriverVFIO {
		t.Errorf("drivers %q, %q", a, b)
	}
}

// With no-IOMMU mode on a function without a group is bound.
func TestBindNoIOMMU(t *testing.T) {
	k, tree := bindTree(t)
	k.Add(pcitest.Function{BDF: "0000:00:05.0", Vendor: VendorVirtio, Device: DeviceNetModern})
	k.WriteFile("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n")
	if err := tree.Bind(DriverVFIO, false, "00:05.0"); err != nil {
		t.Fatal(err)
	}
}

// Whichever step fails, the error names it and what to do, and the function
// has its driver and its override again.
func TestBindUndone(t *testing.T) {
	const device = "sys/bus/pci/devices/0000:00:01.0/"
	for _, tt := range []struct {
		name   string
		refuse map[string]error
		step   string
		err    error
		advice string
	}{
		{"override", map[string]error{device + "driver_override": syscall.EACCES}, "driver_override", fs.ErrPermission, "run as root"},
		{"unbind", map[string]error{device + "driver/unbind": syscall.EIO}, "unbind", syscall.EIO, "dmesg"},
		{"probe", map[string]error{"sys/bus/pci/drivers_probe": syscall.EPERM}, "probe", fs.ErrPermission, "run as root"},
		{"the driver does not take it", map[string]error{"probe vfio-pci": syscall.EIO, "sys/bus/pci/drivers/vfio-pci/bind": syscall.EINVAL}, "bind", syscall.EINVAL, "dmesg"},
		{"the driver does not know it", map[string]error{"probe vfio-pci": syscall.EIO, "sys/bus/pci/drivers/vfio-pci/bind": syscall.ENODEV}, "bind", syscall.ENODEV, "does not know this device"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, tree := bindTree(t)
			k.Refuse = tt.refuse
			// What was refused once works when it is undone.
			tree.Store = func(path, value string) error {
				err := k.Store(path, value)
				if err != nil {
					clear(k.Refuse)
				}
				return err
			}
			err := tree.Bind(DriverVFIO, false, "00:01.0")
			var bind *BindError
			if !errors.As(err, &bind) {
				t.Fatalf("error %v, want a *BindError", err)
			}
			if bind.Step != tt.step || bind.BDF != "0000:00:01.0" || !errors.Is(err, tt.err) || !strings.Contains(bind.Error(), tt.advice) {
				t.Errorf("error %v: want step %q, %v and %q", err, tt.step, tt.err, tt.advice)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has more than one line: %v", err)
			}
			if got := k.DriverOf("0000:00:01.0"); got != DriverVirtio {
				t.Errorf("driver %q, want virtio-pci again", got)
			}
			if got := k.Override("0000:00:01.0"); got != "(null)" {
				t.Errorf("override %q, want none again", got)
			}
		})
	}
}

// An override that was there before is put back.
func TestBindRestoresOverride(t *testing.T) {
	k, tree := bindTree(t)
	k.WriteFile("sys/bus/pci/devices/0000:00:03.0/driver_override", "vfio-pci\n")
	k.Refuse["probe virtio-pci"] = syscall.EIO
	k.Refuse["sys/bus/pci/drivers/virtio-pci/bind"] = syscall.EIO
	if err := tree.Release(false, "00:03.0"); !errors.Is(err, syscall.EIO) {
		t.Errorf("error %v, want EIO", err)
	}
	if driver, override := k.DriverOf("0000:00:03.0"), k.Override("0000:00:03.0"); driver != DriverVFIO || override != DriverVFIO {
		t.Errorf("driver %q, override %q; want vfio-pci for both", driver, override)
	}
}

// When it can't be put back either, the error says so too.
func TestBindNotUndone(t *testing.T) {
	k, tree := bindTree(t)
	k.Refuse["sys/bus/pci/drivers_probe"] = syscall.EIO
	err := tree.Bind(DriverVFIO, false, "00:01.0")
	if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "could not be put back") {
		t.Errorf("error %v", err)
	}
}

func TestDefaultRoutes(t *testing.T) {
	k := pcitest.New(t)
	k.SetRoutes(
		"eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"+
			"eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"+
			"eth2\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"+ // 0.0.0.0/1
			"*\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n"+ // unreachable
			"broken\n",
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth3\n"+
			"fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth4\n"+
			"00000000000000000000000000000000 03 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth5\n"+
			"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n",
	)
	want := map[string]bool{"eth0": true, "eth3": true}
	if diff := cmp.Diff(want, Tree{Root: k.Root}.defaultRoutes()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := (Tree{Root: t.TempDir()}).defaultRoutes(); len(got) != 0 {
		t.Errorf("routes %v without a table", got)
	}
}

// A plain tree is written to like sysfs; what is not there is not made.
func TestTreeStore(t *testing.T) {
	k := pcitest.New(t)
	tree := Tree{Root: k.Root}
	k.WriteFile("sys/a", "")
	if err := tree.store("value", "sys", "a"); err != nil {
		t.Fatal(err)
	}
	if got, err := tree.read("sys/a"); got != "value" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if err := tree.store("value", "sys/b"); !errors.Is(err, fs.ErrNotExist) || tree.exists("sys/b") {
		t.Errorf("error %v, want that there is no such file", err)
	}
}
