package pci_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"vionet/mbuf"
	"vionet/pci"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// netDevice drives a function by hand.
type netDevice struct {
	transport *pci.Transport
	net       guestNet
	header    int // bytes of the virtio-net header
	rx, tx    *handRing
}

func openFunction(f guestNet) (*pci.Transport, error) {
	return pci.Open(pci.Tree{}, f.BDF, pci.Options{})
}

func openNet(t *testing.T, f guestNet) *netDevice {
	t.Helper()
	tr, err := openFunction(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	if tr.Name() != f.BDF || tr.Driver() != "net_virtio" {
		t.Errorf("name %q, driver %q", tr.Name(), tr.Driver())
	}
	return &netDevice{transport: tr, net: f}
}

func newNetMemory(t *testing.T, a port.Addressing, plain bool) *mbuf.Memory {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 2 << 20, NoHuge: plain, IOVA: a.Mode, Ranges: a.Ranges})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	return mem
}

// start negotiates what a bare exchange of frames takes, and sets up one queue
// pair, with interrupts of the receive queue or without.
func (d *netDevice) start(t *testing.T, mem *mbuf.Memory, interrupt bool) {
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
	t.Logf("%s (%s) offers %v", tr.Name(), d.net.cell, offered)
	if offered.Has(virtio.Version1) == d.net.legacy() || d.net.legacy() && offered>>32 != 0 {
		t.Errorf("%s is no %s device", tr.Name(), d.net.cell)
	}
	accepted := offered & (virtio.Version1 | virtio.AccessPlatform | virtio.RingReset | virtio.NetMAC | virtio.NetStatus)
	check(tr.SetFeatures(accepted))
	d.header = virtio.HeaderSize(accepted)
	d.checkMAC(t)
	d.setStatus(t, virtio.StatusAcknowledge|virtio.StatusDriver|virtio.StatusFeaturesOK)
	d.rx, d.tx = newHandRing(t, d, 0, mem, interrupt), newHandRing(t, d, 1, mem, false)
	if n, err := tr.QueueSize(1000); n != 0 || err != nil {
		t.Errorf("queue 1000 has size %d, %v; want 0", n, err)
	}
	d.setStatus(t, virtio.StatusAcknowledge|virtio.StatusDriver|virtio.StatusFeaturesOK|virtio.StatusDriverOK)
	d.checkMAC(t)
}

// setStatus writes the status and reads it back.
func (d *netDevice) setStatus(t *testing.T, want virtio.Status) {
	t.Helper()
	if err := d.transport.SetStatus(want); err != nil {
		t.Fatal(err)
	}
	if d.net.legacy() {
		want &^= virtio.StatusFeaturesOK
	}
	if s, err := d.transport.Status(); err != nil || s != want {
		t.Fatalf("status %v, %v; want %v", s, err, want)
	}
}

// checkMAC expects the address that the lab gives to a function in its slot.
func (d *netDevice) checkMAC(t *testing.T) {
	t.Helper()
	mac := make([]byte, 6)
	if err := d.transport.ReadConfig(virtio.ConfigMAC, mac); err != nil {
		t.Fatal(err)
	}
	// The slot is the second-last digit of "0000:00:01.0", from 1 on.
	if want := []byte{0x52, 0x54, 0, 0, 0, d.net.BDF[9] - '0'}; !bytes.Equal(mac, want) {
		t.Errorf("%s has MAC %x, want %x", d.net.BDF, mac, want)
	}
}

func (d *netDevice) linkUp(t *testing.T) bool {
	t.Helper()
	var b [2]byte
	if err := d.transport.ReadConfig(virtio.ConfigStatus, b[:]); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint16(b[:])&virtio.NetStatusLinkUp != 0
}

// send puts a frame on the wire and waits until the device took it.
func (d *netDevice) send(t *testing.T, mem *mbuf.Memory, frame []byte) {
	t.Helper()
	d.tx.post(t, mem, append(make([]byte, d.header), frame...), 0)
	if n := d.tx.waitUsed(t); n != 0 {
		t.Errorf("the device wrote %d bytes into a frame to send", n)
	}
}

// handRing is a split virtqueue that holds one buffer, in descriptor 0.
type handRing struct {
	desc, avail, used mbuf.Zone
	size              int
	posted            uint16
	kicker            port.Kicker
}

func newHandRing(t *testing.T, d *netDevice, index int, mem *mbuf.Memory, interrupt bool) *handRing {
	t.Helper()
	size, err := d.transport.QueueSize(index)
	if err != nil || size < 64 {
		t.Fatalf("queue %d has size %d, %v", index, size, err)
	}
	if !d.net.legacy() {
		size = 64 // smaller than the device's
	}
	l, err := ring.NewSplitLayout(size)
	if err != nil {
		t.Fatal(err)
	}
	block, err := mem.Alloc(l.Total, ring.UsedAlign)
	if err != nil {
		t.Fatal(err)
	}
	clear(block.Bytes)
	r := &handRing{
		desc: block.Slice(0, l.DescLen()), avail: block.Slice(l.AvailOff, l.AvailLen), used: block.Slice(l.UsedOff, l.UsedLen),
		size: size,
	}
	r.kicker, err = d.transport.SetupQueue(port.QueueSetup{
		Index: index, Size: size, Desc: r.desc, Avail: r.avail, Used: r.used, Interrupt: interrupt,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// post makes content available and kicks.
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
	binary.LittleEndian.PutUint16(r.avail.Bytes[4+2*(int(r.posted)%r.size):], 0)
	r.posted++
	binary.LittleEndian.PutUint16(r.avail.Bytes[2:], r.posted)
	r.kicker.Kick(r.posted)
	return z
}

// waitUsed waits for the buffer to be used and gives the bytes written.
func (r *handRing) waitUsed(t *testing.T) int {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if binary.LittleEndian.Uint16(r.used.Bytes[2:]) == r.posted {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the device did not use the buffer")
		}
	}
	entry := r.used.Bytes[4+8*(int(r.posted-1)%r.size):]
	if id := binary.LittleEndian.Uint32(entry); id != 0 {
		t.Errorf("used id %d, want 0", id)
	}
	return int(binary.LittleEndian.Uint32(entry[4:]))
}
