package pci_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci"
	"vionet/port"
	"vionet/virtio"
)

// These tests run inside a virtual machine that has two virtio-net functions,
// bound to vfio-pci and wired to each other, and nothing else to lose. The
// environment variable VIONET_GUEST=1 says that it is so.
func inGuest(t *testing.T) []pci.Function {
	t.Helper()
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("not in a guest: VIONET_GUEST=1 is not set")
	}
	all, err := pci.Tree{}.Functions()
	if err != nil {
		t.Fatal(err)
	}
	var nets []pci.Function
	for _, f := range all {
		if f.IsVirtioNet() {
			nets = append(nets, f)
		}
	}
	if len(nets) != 2 {
		t.Fatalf("found %d virtio network functions, want 2: %+v", len(nets), nets)
	}
	return nets
}

func TestGuestScan(t *testing.T) {
	for _, f := range inGuest(t) {
		t.Logf("%+v", f)
		if f.Driver != pci.DriverVFIO || f.Group < 0 {
			t.Errorf("%s has driver %q and group %d, want vfio-pci and a group", f.BDF, f.Driver, f.Group)
		}
	}
}

// TestGuestTransport opens both functions, sends a frame from one to the
// other, and closes them; in hugepages and, where an IOMMU translates, in
// plain pages.
func TestGuestTransport(t *testing.T) {
	nets := inGuest(t)
	t.Run("huge", func(t *testing.T) { sendFrame(t, nets, false) })
	t.Run("plain", func(t *testing.T) { sendFrame(t, nets, true) })
}

func sendFrame(t *testing.T, nets []pci.Function, plain bool) {
	before := openFDs(t)
	a, b := openNet(t, nets[0]), openNet(t, nets[1])
	if mac := a.mac(t); !bytes.Equal(mac[:3], []byte{0x52, 0x54, 0}) {
		t.Errorf("MAC %x, want QEMU's prefix 525400", mac)
	}

	addressing := a.transport.Addressing()
	t.Logf("addressing: %+v", addressing)
	if plain && addressing.Mode == mbuf.IOVAPhysical {
		t.Skip("physical addresses take hugepages")
	}
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: plain, IOVA: addressing.Mode, Ranges: addressing.Ranges})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mem.Regions() {
		t.Logf("region: %d bytes at device address %#x, pages of %d", len(r.Bytes), r.IOVA, r.PageSize)
	}
	a.start(t, mem)
	b.start(t, mem)

	frame := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, bytes.Repeat([]byte("vionet"), 20)...)
	rx := b.rx.post(t, mem, make([]byte, 2048), 2)
	a.tx.post(t, mem, append(make([]byte, virtio.NetHeaderSize), frame...), 0)
	if n := a.tx.waitUsed(t); n != 0 {
		t.Errorf("the device wrote %d bytes into a frame to send", n)
	}
	n := b.rx.waitUsed(t)
	if got := rx.Bytes[virtio.NetHeaderSize:n]; !bytes.Equal(got, frame) {
		t.Errorf("received % x, want % x", got, frame)
	}

	for _, d := range []*netDevice{a, b} {
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
	if err := mem.Close(); err != nil {
		t.Error(err)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d file descriptors are open, %d before", after, before)
	}
	for _, f := range nets {
		config, err := os.ReadFile("/sys/bus/pci/devices/" + f.BDF + "/config")
		if err != nil {
			t.Fatal(err)
		}
		if config[4]&4 != 0 {
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
		addressing := d.transport.Addressing()
		mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 2 << 20, IOVA: addressing.Mode, Ranges: addressing.Ranges})
		if err != nil {
			t.Fatal(err)
		}
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
	bdf := nets[1].BDF
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
		err := tree.Bind(pci.DriverVFIO, false, bdf)
		t.Log(err)
		if !errors.Is(err, pci.ErrInUse) {
			t.Errorf("bind while the interface is up: %v, want pci.ErrInUse", err)
		}
	}
	if err := tree.Bind(pci.DriverVFIO, true, bdf); err != nil {
		t.Fatal(err)
	}
	waitFunction(t, bdf, func(f pci.Function) bool { return f.Driver == pci.DriverVFIO && f.Interfaces == nil })
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

// netDevice drives a function by hand.
type netDevice struct {
	transport *pci.Transport
	rx, tx    *handRing
}

func openNet(t *testing.T, f pci.Function) *netDevice {
	t.Helper()
	tr, err := pci.Open(pci.Tree{}, f.BDF, pci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	if tr.Name() != f.BDF || tr.Driver() != "net_virtio" {
		t.Errorf("name %q, driver %q", tr.Name(), tr.Driver())
	}
	return &netDevice{transport: tr}
}

func (d *netDevice) mac(t *testing.T) []byte {
	t.Helper()
	mac := make([]byte, 6)
	if err := d.transport.ReadConfig(virtio.ConfigMAC, mac); err != nil {
		t.Fatal(err)
	}
	return mac
}

// start negotiates VERSION_1, and ACCESS_PLATFORM where it is offered, and
// sets up one queue pair.
func (d *netDevice) start(t *testing.T, mem *mbuf.Memory) {
	t.Helper()
	tr := d.transport
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(tr.Map(mem))
	check(tr.Reset(time.Second))
	check(tr.SetStatus(virtio.StatusAcknowledge | virtio.StatusDriver))
	offered, err := tr.Features()
	check(err)
	t.Logf("%s %x offers %v", tr.Name(), d.mac(t), offered)
	check(tr.SetFeatures(offered & (virtio.Version1 | virtio.AccessPlatform | virtio.NetMAC)))
	want := virtio.StatusAcknowledge | virtio.StatusDriver | virtio.StatusFeaturesOK
	check(tr.SetStatus(want))
	if s, err := tr.Status(); err != nil || s != want {
		t.Fatalf("status %v, %v; want %v", s, err, want)
	}
	d.rx, d.tx = newHandRing(t, d, 0, mem), newHandRing(t, d, 1, mem)
	if n, err := tr.QueueSize(1000); n != 0 || err != nil {
		t.Errorf("queue 1000 has size %d, %v; want 0", n, err)
	}
	want |= virtio.StatusDriverOK
	check(tr.SetStatus(want))
	if s, err := tr.Status(); err != nil || s != want {
		t.Fatalf("status %v, %v; want %v", s, err, want)
	}
}

// handRing is a split virtqueue of 256 entries that holds one buffer.
type handRing struct {
	desc, avail, used mbuf.Zone
	kicker            port.Kicker
}

func newHandRing(t *testing.T, d *netDevice, index int, mem *mbuf.Memory) *handRing {
	t.Helper()
	const size = 256
	if n, err := d.transport.QueueSize(index); err != nil || n < size {
		t.Fatalf("queue %d has size %d, %v", index, n, err)
	}
	zone := func(bytes int) mbuf.Zone {
		z, err := mem.Alloc(bytes, 4096)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	r := &handRing{desc: zone(16 * size), avail: zone(6 + 2*size), used: zone(6 + 8*size)}
	k, err := d.transport.SetupQueue(port.QueueSetup{Index: index, Size: size, Desc: r.desc, Avail: r.avail, Used: r.used})
	if err != nil {
		t.Fatal(err)
	}
	r.kicker = k
	return r
}

// post makes content available in descriptor 0 and kicks.
func (r *handRing) post(t *testing.T, mem *mbuf.Memory, content []byte, flags uint16) mbuf.Zone {
	t.Helper()
	z, err := mem.Alloc(len(content), 64)
	if err != nil {
		t.Fatal(err)
	}
	copy(z.Bytes, content)
	binary.LittleEndian.PutUint64(r.desc.Bytes, z.IOVA)
	binary.LittleEndian.PutUint32(r.desc.Bytes[8:], uint32(len(content)))
	binary.LittleEndian.PutUint16(r.desc.Bytes[12:], flags)
	binary.LittleEndian.PutUint16(r.avail.Bytes[4:], 0)
	binary.LittleEndian.PutUint16(r.avail.Bytes[2:], 1)
	r.kicker.Kick()
	return z
}

// waitUsed waits for the buffer to be used and gives the bytes written.
func (r *handRing) waitUsed(t *testing.T) int {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if binary.LittleEndian.Uint16(r.used.Bytes[2:]) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the device did not use the buffer")
		}
	}
	if diff := cmp.Diff(uint32(0), binary.LittleEndian.Uint32(r.used.Bytes[4:])); diff != "" {
		t.Errorf("used id: %s", diff)
	}
	return int(binary.LittleEndian.Uint32(r.used.Bytes[8:]))
}
