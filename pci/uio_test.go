package pci

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci/pcitest"
	"vionet/port"
	"vionet/virtio"
)

// uioTree has a function 0000:00:01.0 with a UIO driver. BAR 0 has 32 I/O
// ports, BAR 4 is memory of 16 KiB. The node is a pipe: four bytes in it are
// an interrupt.
func uioTree(t *testing.T, driver string, device uint16, config []byte) (*pcitest.Kernel, Tree) {
	t.Helper()
	k := pcitest.New(t)
	k.AddDriver(driver, nil)
	k.Add(pcitest.Function{BDF: "0000:00:01.0", Vendor: VendorVirtio, Device: device, Driver: driver, Config: config})
	dir := "sys/bus/pci/devices/0000:00:01.0/"
	none := "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
	k.WriteFile(dir+"resource", "0x000000000000c040 0x000000000000c05f 0x0000000000040101\n"+none+none+none+
		"0x000000fe00000000 0x000000fe00003fff 0x000000000014220c\n"+none+none)
	k.WriteFile(dir+"resource0", string(make([]byte, 32)))
	k.WriteFile(dir+"resource4", string(make([]byte, 0x4000)))
	k.WriteFile(dir+"uio/uio3/name", driver+"\n")
	k.WriteFile(dir+"irq", "11\n")
	k.WriteFile("dev/null", "")
	if err := unix.Mkfifo(k.Root+"/dev/uio3", 0o600); err != nil {
		t.Fatal(err)
	}
	return k, Tree{Root: k.Root, Store: k.Store}
}

// uioFiles are the files of a function on a tree.
type uioFiles struct {
	k   *pcitest.Kernel
	bdf string
}

func (f uioFiles) bar(content []byte) {
	f.k.WriteFile("sys/bus/pci/devices/"+f.bdf+"/resource0", string(content))
}

func (f uioFiles) enableMSIX(t *testing.T) {
	t.Helper()
	fd, err := unix.Open(f.k.Root+"/sys/bus/pci/devices/"+f.bdf+"/config", unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, []byte{msixEnable >> 8}, cfgHeaderSize+msixControl+1); err != nil {
		t.Fatal(err)
	}
}

// interrupt makes the line fire.
func (f uioFiles) interrupt(t *testing.T) {
	t.Helper()
	node, err := os.OpenFile(f.k.Root+"/dev/uio3", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if _, err := node.Write([]byte{1, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
}

// A modern device through either UIO driver: registers are mapped from the
// BAR's file, the configuration space is the attribute, addresses are physical
// and a warning says what that means.
func TestUIOModern(t *testing.T) {
	for _, driver := range []string{DriverUIOGeneric, DriverUIOIntel} {
		t.Run(driver, func(t *testing.T) {
			k, tree := uioTree(t, driver, DeviceNetModern, testConfig(goodCaps()...))
			before := openFDs(t)
			var log bytes.Buffer
			tr, err := Open(tree, "00:01.0", Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), "level=WARN") {
				t.Errorf("log %q has no warning", log.String())
			}
			if got := tr.Addressing().Mode; got != mbuf.IOVAPhysical {
				t.Errorf("addressing %v, want physical", got)
			}
			dir := k.Root + "/sys/bus/pci/devices/0000:00:01.0/"
			if err := tr.SetStatus(virtio.StatusAcknowledge); err != nil {
				t.Fatal(err)
			}
			if got := readFile(t, dir+"resource4")[regDeviceStatus]; got != 1 {
				t.Errorf("status register is %d, want 1", got)
			}
			if got := binary.LittleEndian.Uint16(readFile(t, dir+"config")[cfgCommand:]); got != 0x407 {
				t.Errorf("PCI command %#x, want I/O, memory and bus master, and no interrupts by the line", got)
			}

			if _, err := Open(tree, "00:01.0", Options{}); !errors.Is(err, ErrInUse) {
				t.Errorf("opened twice: %v", err)
			}
			if err := tree.Bind("vfio-pci", true, "00:01.0"); !errors.Is(err, ErrInUse) {
				t.Errorf("bound to another driver while open: %v", err)
			}
			for range 2 {
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if got := binary.LittleEndian.Uint16(readFile(t, dir+"config")[cfgCommand:]); got != 0x403 {
				t.Errorf("PCI command %#x after close, want the bus master off", got)
			}
			if diff := cmp.Diff(before, openFDs(t)); diff != "" {
				t.Errorf("file descriptors (-before +after)\n%s", diff)
			}
		})
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The line wakes both kinds of waiters and is armed again by the INTx-disable
// bit.
func TestUIOInterrupts(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	k, tree := uioTree(t, DriverUIOGeneric, DeviceNetLegacy, testConfig())
	device := uioFiles{k, "0000:00:01.0"}
	device.bar(legacyBAR(20, ""))
	dir := k.Root + "/sys/bus/pci/devices/0000:00:01.0/"
	config := readFile(t, dir+"config")
	config[cfgCommand+1] = commandINTxDisable >> 8
	k.WriteFile("sys/bus/pci/devices/0000:00:01.0/config", string(config))
	tr, err := Open(tree, "00:01.0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	told := make(chan struct{}, 10)
	tr.Watch(func() { told <- struct{}{} })
	q := legacyRing(0, 0x10000)
	q.Interrupt = true
	if _, err := tr.SetupQueue(q); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint16(readFile(t, dir+"config")[cfgCommand:]); got&commandINTxDisable != 0 {
		t.Errorf("PCI command %#x: the line is still disabled", got)
	}
	event, err := tr.QueueEvent(0)
	if err != nil {
		t.Fatal(err)
	}
	bar := legacyBAR(20, "")
	bar[legISR] = isrQueue | isrConfig
	device.bar(bar)
	device.interrupt(t)
	if err := event.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	<-told
}

// A function without an interrupt line can be polled. What changes is to be
// read; nobody takes the device for gone.
func TestUIOWithoutLine(t *testing.T) {
	k, tree := uioTree(t, DriverUIOGeneric, DeviceNetModern, testConfig(goodCaps()...))
	k.WriteFile("sys/bus/pci/devices/0000:00:01.0/irq", "0\n")
	var log bytes.Buffer
	tr, err := Open(tree, "00:01.0", Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tr.Watch(func() {})
	if !strings.Contains(log.String(), "may go unnoticed") {
		t.Errorf("log %q does not say it", log.String())
	}
	if _, err := tr.Status(); err != nil {
		t.Error(err)
	}
}

// igb_uio makes a line of MSI-X vector 0, which everything is sent to.
func TestUIOSharedVector(t *testing.T) {
	config := testConfig(msixCap())
	config[cfgHeaderSize+msixControl+1] = msixEnable >> 8
	k, tree := uioTree(t, DriverUIOIntel, DeviceNetLegacy, config)
	device := uioFiles{k, "0000:00:01.0"}
	device.bar(legacyBAR(24, ""))
	tr, err := Open(tree, "00:01.0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	told := make(chan struct{}, 10)
	tr.Watch(func() { told <- struct{}{} })
	q := legacyRing(0, 0x10000)
	q.Interrupt = true
	if _, err := tr.SetupQueue(q); err != nil {
		t.Fatal(err)
	}
	event, err := tr.QueueEvent(0)
	if err != nil {
		t.Fatal(err)
	}
	device.interrupt(t)
	if err := event.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	<-told
}

func TestUIOErrors(t *testing.T) {
	const dir = "/sys/bus/pci/devices/0000:00:01.0/"
	for _, tt := range []struct {
		name   string
		change func(k *pcitest.Kernel)
		err    error
		text   string
	}{
		{"no UIO directory", func(k *pcitest.Kernel) { os.RemoveAll(k.Root + dir + "uio") }, os.ErrNotExist, "devbind -b uio_pci_generic"},
		{"no node", func(k *pcitest.Kernel) { os.Remove(k.Root + "/dev/uio3") }, os.ErrNotExist, "dev/uio3"},
		{"two nodes", func(k *pcitest.Kernel) { k.WriteFile(dir+"uio/uio4/name", "") }, nil, "2 entries"},
		{"no BAR file", func(k *pcitest.Kernel) { os.Remove(k.Root + dir + "resource4") }, os.ErrNotExist, "resource4"},
		{"BAR too small", func(k *pcitest.Kernel) { k.WriteFile(dir+"resource", strings.Repeat("0x0 0x0 0x0\n", 7)) }, ErrCapability, "BAR 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, tree := uioTree(t, DriverUIOGeneric, DeviceNetModern, testConfig(goodCaps()...))
			tt.change(k)
			before := openFDs(t)
			_, err := Open(tree, "0000:00:01.0", Options{})
			if err == nil || !strings.Contains(err.Error(), tt.text) || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v with %q", err, tt.err, tt.text)
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

// A device that wants translated addresses can't have them through UIO.
func TestUIOBehindIOMMU(t *testing.T) {
	for kind, want := range map[string]error{"DMA-FQ": port.ErrNotSupported, "identity": nil} {
		k, tree := uioTree(t, DriverUIOGeneric, DeviceNetModern, testConfig(goodCaps()...))
		k.WriteFile("sys/kernel/iommu_groups/4/type", kind+"\n")
		d := &uioDevice{tree: tree, group: 4}
		if a, err := d.translated(); !errors.Is(err, want) || want == nil && a.Mode != mbuf.IOVAPhysical {
			t.Errorf("%s: %+v, %v; want %v", kind, a, err, want)
		}
	}
}

func TestParseResource(t *testing.T) {
	for _, tt := range []struct {
		line        string
		size, flags uint64
		ok          bool
	}{
		{"0x000000000000c040 0x000000000000c05f 0x0000000000040101", 32, 0x40101, true},
		{"0x0000000000000000 0x0000000000000000 0x0000000000000000", 0, 0, true},
		{"0x0000000000000000 0x0000000000000fff 0x0000000000000200", 4096, 0x200, true},
		{"0x2 0x1 0x200", 0, 0, false},
		{"0x0 0xffffffffffffffff 0x200", 0, 0, false},
		{"0x0 0x1", 0, 0, false},
		{"", 0, 0, false},
		{"0x0 one 0x0", 0, 0, false},
	} {
		size, flags, err := parseResource(tt.line)
		if (err == nil) != tt.ok || tt.ok && (size != tt.size || flags != tt.flags) {
			t.Errorf("%q: %d, %#x, %v; want %d, %#x", tt.line, size, flags, err, tt.size, tt.flags)
		}
	}
}

func FuzzParseResource(f *testing.F) {
	f.Add("0x000000000000c040 0x000000000000c05f 0x0000000000040101")
	f.Add("0x0 0xffffffffffffffff 0x200")
	f.Fuzz(func(t *testing.T, line string) {
		if size, _, err := parseResource(line); err == nil && size > 1<<63-1 {
			t.Errorf("%q: %d bytes", line, size)
		}
	})
}
