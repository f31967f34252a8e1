package pci_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci"
	"vionet/port"
)

// These tests run inside a virtual machine that has some virtio-net functions
// on its first bus, wired to each other and bound to a driver, and nothing
// else to lose. TestInVM boots it. The environment variable VIONET_GUEST=1 says
// that it is so, VIONET_DRIVER which driver it is, and VIONET_CELLS what the
// functions are, such as "modern, MSI-X;legacy, INTx".
func inGuest(t *testing.T) []guestNet {
	t.Helper()
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("not in a guest: VIONET_GUEST=1 is not set")
	}
	warmPoller(t)
	bindWithoutIOMMU(t)
	cells := strings.Split(os.Getenv("VIONET_CELLS"), ";")
	var nets []guestNet
	for _, f := range netFunctions(t) {
		if strings.HasPrefix(f.BDF, "0000:00:") && len(nets) < len(cells) {
			nets = append(nets, guestNet{Function: f, cell: cells[len(nets)]})
		}
	}
	if len(nets) < 2 || len(nets) != len(cells) {
		t.Fatalf("found %d virtio network functions for the cells %q: %+v", len(nets), cells, nets)
	}
	return nets
}

// guestNet is a function of the guest and what it should be.
type guestNet struct {
	pci.Function
	cell string
}

func (n guestNet) legacy() bool { return strings.HasPrefix(n.cell, "legacy") }

func (n guestNet) msix() bool { return strings.HasSuffix(n.cell, "MSI-X") }

func netFunctions(t *testing.T) (nets []pci.Function) {
	t.Helper()
	all, err := pci.Tree{}.Functions()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.IsVirtioNet() {
			nets = append(nets, f)
		}
	}
	return nets
}

// warmPoller makes Go's poller open its descriptors, which stay.
func warmPoller(t *testing.T) {
	t.Helper()
	e, err := port.NewEventFD()
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}

func TestGuestScan(t *testing.T) {
	want := os.Getenv("VIONET_DRIVER")
	for _, f := range inGuest(t) {
		t.Logf("%+v", f)
		if f.Driver != want || (want == pci.DriverVFIO) != (f.Group >= 0) {
			t.Errorf("%s has driver %q and group %d, want %s", f.BDF, f.Driver, f.Group, want)
		}
	}
}

// TestGuestTransport sends a frame from each function to the next, in
// hugepages and, where an IOMMU translates, in plain pages.
func TestGuestTransport(t *testing.T) {
	nets := inGuest(t)
	for i, from := range nets {
		to := nets[(i+1)%len(nets)]
		t.Run(from.cell+" to "+to.cell, func(t *testing.T) {
			t.Run("huge", func(t *testing.T) { sendFrame(t, from, to, false) })
			t.Run("plain", func(t *testing.T) { sendFrame(t, from, to, true) })
		})
	}
}

func sendFrame(t *testing.T, from, to guestNet, plain bool) {
	before := openFDs(t)
	a, b := openNet(t, from), openNet(t, to)
	addressing := a.transport.Addressing()
	t.Logf("addressing: %+v", addressing)
	if plain && addressing.Mode == mbuf.IOVAPhysical {
		t.Skip("physical addresses take hugepages")
	}
	mem := newNetMemory(t, addressing, plain)
	a.start(t, mem, false)
	b.start(t, mem, false)

	frame := testFrame()
	rx := b.rx.post(t, mem, make([]byte, 2048), 2)
	a.send(t, mem, frame)
	n := b.rx.waitUsed(t)
	if got := rx.Bytes[b.header:n]; !bytes.Equal(got, frame) {
		t.Errorf("received % x, want % x", got, frame)
	}
	closeNets(t, a, b)
	if err := mem.Close(); err != nil {
		t.Error(err)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d file descriptors are open, %d before", after, before)
	}
	for _, f := range []guestNet{from, to} {
		checkQuiet(t, f)
	}
	fmt.Printf("cell %s: %s to %s: frame of %d bytes\n", from.Driver, from.cell, to.cell, len(frame))
}

// testFrame is a broadcast.
func testFrame() []byte {
	return append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, bytes.Repeat([]byte("vionet"), 20)...)
}

func closeNets(t *testing.T, nets ...*netDevice) {
	t.Helper()
	for _, d := range nets {
		if err := d.transport.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := d.transport.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if _, err := d.transport.Status(); !errors.Is(err, port.ErrClosed) {
			t.Errorf("status after close: %v, want port.ErrClosed", err)
		}
	}
}

// checkQuiet tells whether a function was left without DMA and after a reset.
func checkQuiet(t *testing.T, f guestNet) {
	t.Helper()
	if config := readConfigSpace(t, f); config[4]&4 != 0 {
		t.Errorf("%s is still bus master", f.BDF)
	}
	again := openNet(t, f)
	if s, err := again.transport.Status(); err != nil || s != 0 {
		t.Errorf("%s: status %v, %v after it was opened again, want RESET", f.BDF, s, err)
	}
	if err := again.transport.Close(); err != nil {
		t.Error(err)
	}
}

func readConfigSpace(t *testing.T, f guestNet) []byte {
	t.Helper()
	config, err := os.ReadFile("/sys/bus/pci/devices/" + f.BDF + "/config")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestGuestBusy opens a function twice, in this process and as if from
// another one, and tries to give it back while it is open.
func TestGuestBusy(t *testing.T) {
	nets := inGuest(t)
	d := openNet(t, nets[0])
	refused := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", what)
		}
		t.Logf("%s: %v", what, err)
	}
	_, err := pci.Open(pci.Tree{}, nets[0].BDF, pci.Options{})
	refused("open twice", err)
	err = pci.Tree{}.Release(true, nets[0].BDF)
	refused("give back while open", err)
	// Without virtio-pci in this guest it can't be given back anyway.
	if !errors.Is(err, pci.ErrInUse) && !errors.Is(err, pci.ErrNoDriver) {
		t.Errorf("error %v, want pci.ErrInUse", err)
	}
	if err := d.transport.Close(); err != nil {
		t.Fatal(err)
	}

	if nets[0].Driver != pci.DriverVFIO {
		return
	}
	// A group that is open has no second user, whoever it is.
	node := fmt.Sprintf("/dev/vfio/%d", nets[0].Group)
	if _, err := os.Stat(node); err != nil {
		node = fmt.Sprintf("/dev/vfio/noiommu-%d", nets[0].Group)
	}
	group, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	_, err = pci.Open(pci.Tree{}, nets[0].BDF, pci.Options{})
	refused("open a busy group", err)
}

// TestGuestAgain opens and closes a function many times: nothing is left
// behind that keeps the next one from working.
func TestGuestAgain(t *testing.T) {
	nets := inGuest(t)
	before := openFDs(t)
	for range 20 {
		d := openNet(t, nets[0])
		mem := newNetMemory(t, d.transport.Addressing(), false)
		if err := d.transport.Map(mem); err != nil {
			t.Fatal(err)
		}
		if err := d.transport.Close(); err != nil {
			t.Fatal(err)
		}
		if err := mem.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d file descriptors are open, %d before", after, before)
	}
}

// TestGuestBind gives a function back to its kernel driver and takes it again.
func TestGuestBind(t *testing.T) {
	nets := inGuest(t)
	bdf, driver := nets[1].BDF, nets[1].Driver
	tree := pci.Tree{}
	if err := tree.Release(false, bdf); errors.Is(err, pci.ErrNoDriver) {
		t.Skipf("this guest can't show it: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	f := waitFunction(t, bdf, func(f pci.Function) bool { return f.Driver == pci.DriverVirtio })
	t.Logf("given back: %+v", f)
	if _, err := pci.Open(tree, bdf, pci.Options{}); !errors.Is(err, pci.ErrAccess) {
		t.Errorf("open: %v, want pci.ErrAccess", err)
	}
	if len(f.Interfaces) > 0 {
		bringUp(t, f.Interfaces[0])
		err := tree.Bind(driver, false, bdf)
		t.Log(err)
		if !errors.Is(err, pci.ErrInUse) {
			t.Errorf("bind while the interface is up: %v, want pci.ErrInUse", err)
		}
	}
	if err := tree.Bind(driver, true, bdf); err != nil {
		t.Fatal(err)
	}
	waitFunction(t, bdf, func(f pci.Function) bool { return f.Driver == driver && f.Interfaces == nil })
	d := openNet(t, nets[1])
	if err := d.transport.Close(); err != nil {
		t.Error(err)
	}
}

// bringUp does what "ip link set NAME up" does.
func bringUp(t *testing.T, name string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		t.Fatal(err)
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		t.Fatalf("bring %s up: %v", name, err)
	}
}

func waitFunction(t *testing.T, bdf string, ok func(pci.Function) bool) pci.Function {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		f, err := pci.Tree{}.Function(bdf)
		if err != nil {
			t.Fatal(err)
		}
		if ok(f) {
			return f
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v did not become what it should", f)
		}
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
