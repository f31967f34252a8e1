package pci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci/pcitest"
	"vionet/port"
	"vionet/virtio"
)

// vfioTree has two functions in groups 1 and 2 and two in group 3, all bound
// to vfio-pci, and their nodes.
func vfioTree(t *testing.T) (*pcitest.Kernel, Tree) {
	k := pcitest.New(t)
	for bdf, group := range map[string]int{"0000:00:01.0": 1, "0000:00:02.0": 2, "0000:00:03.0": 3, "0000:00:03.1": 3} {
		k.Add(pcitest.Function{BDF: bdf, Vendor: VendorVirtio, Device: DeviceNetModern, Driver: DriverVFIO, Group: group})
		k.WriteFile(fmt.Sprintf("dev/vfio/%d", group), "")
	}
	k.WriteFile("dev/vfio/vfio", "")
	return k, Tree{Root: k.Root, Store: k.Store}
}

func function(t *testing.T, tree Tree, bdf string) Function {
	t.Helper()
	f, err := tree.Function(bdf)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A transport over the whole of VFIO: the registers are mapped from the
// device's file, which is read back here.
func TestVFIOOpen(t *testing.T) {
	_, tree := vfioTree(t)
	before := openFDs(t)
	v := newFakeVFIO(t)
	c := newVFIOContainer(v)
	tr, err := open(c, tree, "00:01.0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"version", "status", "container", "iommu 3", "device 0000:00:01.0",
		"region 0", "region 1", "region 2", "region 3", "region 4", "region 5", "region 7", "reset",
	}
	if diff := cmp.Diff(want, v.calls); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	fd := tr.access.(*vfioDevice).fd
	read := func(at int64, n int) []byte {
		b := make([]byte, n)
		if _, err := unix.Pread(fd, b, at); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if command := binary.LittleEndian.Uint16(read(fakeConfigAt+cfgCommand, 2)); command != 0x407 {
		t.Errorf("PCI command %#x, want I/O and memory decoding and bus master, and no interrupts by the line", command)
	}
	if err := tr.SetStatus(virtio.StatusAcknowledge); err != nil {
		t.Fatal(err)
	}
	if got := read(regDeviceStatus, 1)[0]; got != 1 {
		t.Errorf("status register is %d, want 1", got)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, openFDs(t)); diff != "" {
		t.Errorf("file descriptors (-before +after)\n%s", diff)
	}
	if c.fd != -1 || len(c.groups) != 0 {
		t.Errorf("the container is still open: %+v", c)
	}
}

// Whatever call fails, nothing stays open or mapped, and the next try works.
// The same with standard input closed, when a good descriptor may be 0.
func TestB20VFIODescriptors(t *testing.T) {
	for _, stdin := range []bool{true, false} {
		t.Run(fmt.Sprintf("stdin=%v", stdin), func(t *testing.T) {
			if !stdin {
				closeStdin(t)
			}
			_, tree := vfioTree(t)
			// 13 calls open the function, as TestVFIOOpen shows, one maps.
			for failAt := 1; failAt <= 14; failAt++ {
				before := openFDs(t)
				v := newFakeVFIO(t)
				v.failAt, v.err = failAt, unix.EIO
				c := newVFIOContainer(v)
				tr, err := openAndMap(t, c, tree)
				if !errors.Is(err, unix.EIO) {
					t.Fatalf("call %d: error %v, want EIO", failAt, err)
				}
				if tr != nil {
					if err := tr.Close(); err != nil {
						t.Errorf("call %d: close: %v", failAt, err)
					}
				}
				if diff := cmp.Diff(before, openFDs(t)); diff != "" {
					t.Errorf("call %d: file descriptors (-before +after)\n%s", failAt, diff)
				}
				if len(v.mapped) != 0 || c.fd != -1 || len(c.maps) != 0 {
					t.Errorf("call %d: left %v mapped, container %d", failAt, v.mapped, c.fd)
				}
				if tr, err = openAndMap(t, c, tree); err != nil {
					t.Fatalf("call %d: the next try: %v", failAt, err)
				}
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
			}
			if !stdin {
				return
			}
			if _, err := os.Stdin.Stat(); err != nil {
				t.Errorf("standard input was closed: %v", err)
			}
		})
	}
}

// closeStdin closes descriptor 0 for the time of a test.
func closeStdin(t *testing.T) {
	saved, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(0)
	t.Cleanup(func() {
		if err := unix.Dup2(saved, 0); err != nil {
			t.Error(err)
		}
		unix.Close(saved)
	})
}

func openAndMap(t *testing.T, c *vfioContainer, tree Tree) (*Transport, error) {
	tr, err := open(c, tree, "0000:00:01.0", Options{})
	if err != nil {
		return nil, err
	}
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4096, NoHuge: true, IOVA: mbuf.IOVARanges, Ranges: fallbackRanges})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	// The fake device offers no features; go around the check of the mode.
	return tr, tr.access.mapDMA(mem.Regions())
}

// Two functions share the container and the memory, which is mapped once and
// stays so until the second one is closed.
func TestVFIOShared(t *testing.T) {
	_, tree := vfioTree(t)
	v := newFakeVFIO(t)
	c := newVFIOContainer(v)
	mem := newMemory(t, mbuf.IOVARanges, fallbackRanges...)
	var devices []*vfioDevice
	for _, bdf := range []string{"0000:00:01.0", "0000:00:02.0", "0000:00:03.0", "0000:00:03.1"} {
		d, err := c.open(tree, function(t, tree, bdf))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.mapDMA(mem.Regions()); err != nil {
			t.Fatal(err)
		}
		devices = append(devices, d)
	}
	if _, err := c.open(tree, function(t, tree, "0000:00:03.1")); err == nil || !strings.Contains(err.Error(), "already open") {
		t.Errorf("opened twice: %v", err)
	}
	counts := map[string]int{}
	for _, call := range v.calls {
		counts[call]++
	}
	if counts["map"] != 1 || counts["version"] != 1 || counts["iommu 3"] != 1 || counts["container"] != 3 {
		t.Errorf("calls %v: want one container with three groups and the memory mapped once", counts)
	}
	for i, d := range devices {
		if len(v.mapped) != 1 {
			t.Errorf("before close %d: mapped %v, want the memory", i, v.mapped)
		}
		for range 2 {
			if err := d.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(v.mapped) != 0 || c.fd != -1 {
		t.Errorf("after the last close: mapped %v, container %d", v.mapped, c.fd)
	}
}

// A mapping that fails in the middle is undone.
func TestVFIOMapUndone(t *testing.T) {
	_, tree := vfioTree(t)
	v := newFakeVFIO(t)
	c := newVFIOContainer(v)
	d, err := c.open(tree, function(t, tree, "0000:00:01.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	mem := make([]byte, 3*4096)
	regions := []mbuf.Region{
		{Bytes: mem[:4096], IOVA: 0x10000}, {Bytes: mem[4096:8192], IOVA: 0x20000}, {Bytes: mem[8192:], IOVA: 0x30000},
	}
	v.failAt, v.err = len(v.calls)+3, unix.EINVAL
	if err := d.mapDMA(regions); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "0x30000") {
		t.Errorf("error %v, want EINVAL with the address", err)
	}
	if len(v.mapped) != 0 || len(d.mapped) != 0 {
		t.Errorf("still mapped: %v", v.mapped)
	}
	if err := d.mapDMA(regions); err != nil {
		t.Errorf("second try: %v", err)
	}
	// Other memory can't have the same address.
	if err := d.mapDMA([]mbuf.Region{{Bytes: make([]byte, 4096), IOVA: 0x10000}}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("error %v, want EEXIST", err)
	}
}

func TestVFIOErrors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(k *pcitest.Kernel, v *fakeVFIO)
		address string
		err     error
		text    string
	}{
		{name: "no such function", address: "00:1f.0", err: ErrNoFunction},
		{name: "not an address", address: "eth0", text: "not a PCI address"},
		{
			name:   "kernel driver",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) { rebind(k, "virtio-pci") },
			err:    ErrAccess, text: "but to virtio-pci: vionet devbind -b vfio-pci 0000:00:01.0",
		},
		{
			name:   "no driver",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) { rebind(k, "") },
			err:    ErrAccess, text: "vionet devbind -b vfio-pci",
		},
		{
			name: "UIO without a node",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) {
				k.AddDriver("uio_pci_generic", nil)
				rebind(k, "uio_pci_generic")
			},
			err: os.ErrNotExist, text: "vionet devbind -b uio_pci_generic 0000:00:01.0",
		},
		{
			name:   "another kind of card",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) { k.WriteFile("sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086") },
			err:    port.ErrNotSupported, text: "8086:1041",
		},
		{
			name:   "VFIO is not loaded",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) { os.RemoveAll(k.Root + "/dev/vfio") },
			err:    os.ErrNotExist, text: "modprobe vfio-pci",
		},
		{
			name:   "group node is missing",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) { os.Remove(k.Root + "/dev/vfio/1") },
			err:    os.ErrNotExist, text: "dev/vfio/1",
		},
		{
			name:   "group is not viable",
			change: func(_ *pcitest.Kernel, v *fakeVFIO) { v.flags = 0 },
			err:    ErrGroupShared,
		},
		{
			name:   "interrupts are not remapped",
			change: func(_ *pcitest.Kernel, v *fakeVFIO) { v.failAt, v.err = 4, unix.EPERM },
			err:    unix.EPERM, text: "allow_unsafe_interrupts",
		},
		{
			name:   "used by another process",
			change: func(_ *pcitest.Kernel, v *fakeVFIO) { v.failAt, v.err = 5, unix.EBUSY },
			err:    unix.EBUSY, text: "used by nobody",
		},
		{
			name: "no IOMMU group",
			change: func(k *pcitest.Kernel, _ *fakeVFIO) {
				os.Remove(k.Root + "/sys/bus/pci/devices/0000:00:01.0/iommu_group")
			},
			err: ErrNoIOMMU, text: "intel_iommu=on",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, tree := vfioTree(t)
			v := newFakeVFIO(t)
			if tt.change != nil {
				tt.change(k, v)
			}
			if tt.address == "" {
				tt.address = "0000:00:01.0"
			}
			before := openFDs(t)
			_, err := open(newVFIOContainer(v), tree, tt.address, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want one with %q", err, tt.text)
			}
			if tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("error has more than one line: %v", err)
			}
			if diff := cmp.Diff(before, openFDs(t)); diff != "" {
				t.Errorf("file descriptors (-before +after)\n%s", diff)
			}
		})
	}
}

// rebind gives the first function another driver.
func rebind(k *pcitest.Kernel, driver string) {
	link := k.Root + "/sys/bus/pci/devices/0000:00:01.0/driver"
	os.Remove(link)
	if driver != "" {
		os.Symlink(k.Root+"/sys/bus/pci/drivers/"+driver, link)
	}
}

// A function that can't be reset is used all the same; the reset of the
// virtio device is what counts.
func TestVFIOResetTolerated(t *testing.T) {
	_, tree := vfioTree(t)
	v := newFakeVFIO(t)
	v.failAt, v.err = 13, unix.EINVAL
	d, err := newVFIOContainer(v).open(tree, function(t, tree, "0000:00:01.0"))
	if err != nil {
		t.Fatal(err)
	}
	if v.resets != 1 || v.calls[12] != "reset" {
		t.Errorf("calls %v", v.calls)
	}
	d.close()
}

func TestIOVARanges(t *testing.T) {
	two := [][2]uint64{{0, 0xfedfffff}, {0xfef00000, 1<<39 - 1}}
	want := []mbuf.AddrRange{{First: 0, Last: 0xfedfffff}, {First: 0xfef00000, Last: 0x7fffffffff}}
	cut := testIOMMUInfo(two...)
	cut = cut[:len(cut)-8]
	endless := testIOMMUInfo()
	binary.LittleEndian.PutUint32(endless[vfioIOMMUInfoSize+4:], vfioIOMMUInfoSize)
	for _, tt := range []struct {
		name string
		info []byte
		want []mbuf.AddrRange
	}{
		{"two ranges", testIOMMUInfo(two...), want},
		{"one range, 48 bits", testIOMMUInfo([2]uint64{0x1000, 1<<48 - 1}), []mbuf.AddrRange{{First: 0x1000, Last: 1<<48 - 1}}},
		{"a range upside down", testIOMMUInfo([2]uint64{5, 4}, two[1]), want[1:]},
		{"no such capability", testIOMMUInfo(), want},
		{"no capabilities", make([]byte, vfioIOMMUInfoSize), want},
		{"nothing", nil, want},
		{"cut", cut, want[:1]},
		{"endless", endless, want},
	} {
		if diff := cmp.Diff(tt.want, iovaRanges(tt.info)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestRegionWindows(t *testing.T) {
	for _, tt := range []struct {
		name           string
		info           []byte
		offset, length uint64
		want           bool
	}{
		{"all of it", testRegionInfo(vfioRegionMmap, 0x4000, 0), 0, 0x4000, true},
		{"past the end", testRegionInfo(vfioRegionMmap, 0x4000, 0), 0x3000, 0x1001, false},
		{"wraps", testRegionInfo(vfioRegionMmap, 0x4000, 0), 0x3000, 1<<64 - 1, false},
		{"not mappable", testRegionInfo(0, 0x4000, 0), 0, 4, false},
		{"before the MSI-X table", testRegionInfo(vfioRegionMmap, 0x4000, 0, [2]uint64{0, 0x1000}, [2]uint64{0x2000, 0x2000}), 0x800, 0x800, true},
		{"over the MSI-X table", testRegionInfo(vfioRegionMmap, 0x4000, 0, [2]uint64{0, 0x1000}, [2]uint64{0x2000, 0x2000}), 0x800, 0x900, false},
		{"after the MSI-X table", testRegionInfo(vfioRegionMmap, 0x4000, 0, [2]uint64{0, 0x1000}, [2]uint64{0x2000, 0x2000}), 0x2000, 0x2000, true},
		{"short structure", make([]byte, 16), 0, 1, false},
	} {
		if got := parseRegion(tt.info).canMap(tt.offset, tt.length); got != tt.want {
			t.Errorf("%s: canMap is %v, want %v", tt.name, got, tt.want)
		}
	}
}

func FuzzVFIOInfo(f *testing.F) {
	f.Add(testIOMMUInfo([2]uint64{0, 1<<39 - 1}))
	f.Add(testRegionInfo(vfioRegionMmap, 0x4000, 0, [2]uint64{0, 0x1000}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, info []byte) {
		for _, r := range iovaRanges(info) {
			if r.First > r.Last {
				t.Fatalf("range %+v", r)
			}
		}
		parseRegion(info).canMap(0x1000, 0x1000)
	})
}
