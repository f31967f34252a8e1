package driver_test

import (
	"bytes"
	"log/slog"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// rig is a driver on a fake device, with one pool.
type rig struct {
	t    testing.TB
	dev  *fakedev.Device
	port *driver.Device
	pool *mbuf.Pool
	mem  *mbuf.Memory
	log  bytes.Buffer
}

type rigConfig struct {
	dev     fakedev.Config
	opts    driver.Options
	port    port.Config
	buffers int // 0: 1024
	bufSize int
}

// newRig opens and configures the port; it is not started. The test ends with
// every buffer back in the pool.
func newRig(t testing.TB, c rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, dev: fakedev.New(c.dev)}
	if c.buffers == 0 {
		c.buffers = 1024
	}
	var err error
	r.mem, err = mbuf.NewMemory(mbuf.MemoryConfig{Size: c.buffers*mbuf.Stride(max(c.bufSize, mbuf.DefaultSize)) + 4<<20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	r.pool, err = mbuf.NewPool(r.mem, mbuf.PoolConfig{Count: c.buffers, BufSize: c.bufSize})
	if err != nil {
		t.Fatal(err)
	}
	c.opts.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	r.port, err = driver.Open(r.dev, c.opts)
	if err != nil {
		t.Fatal(err)
	}
	c.port.Pool = r.pool
	if err := r.port.Configure(c.port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.port.Close(); err != nil {
			t.Error(err)
		}
		if n := r.dev.EarlyKicks(); n != 0 {
			t.Errorf("%d notifications before DRIVER_OK", n)
		}
		if free := r.pool.Free(); free != r.pool.Size() {
			t.Errorf("after Close %d of %d buffers are in the pool", free, r.pool.Size())
		}
		if err := r.mem.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ringKind is a kind of virtqueue and how to get it.
type ringKind struct {
	name  string
	offer virtio.Features
	opts  driver.Options
}

// ringKinds are those that a device may complete in any order.
var ringKinds = []ringKind{
	{"split", 0, driver.Options{}},
	{"split, event index", virtio.EventIdx, driver.Options{EventIdx: true}},
	{"packed", virtio.RingPacked, driver.Options{}},
	{"packed, event index", virtio.RingPacked | virtio.EventIdx, driver.Options{EventIdx: true}},
}

// inOrderKinds are those whose devices complete in order.
var inOrderKinds = []ringKind{
	{"split, in order", virtio.InOrder, driver.Options{InOrder: true}},
	{"packed, in order", virtio.RingPacked | virtio.InOrder, driver.Options{InOrder: true}},
}

func startRig(t testing.TB, c rigConfig) *rig {
	t.Helper()
	r := newRig(t, c)
	if err := r.port.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) rx() port.RxQueue { return r.port.RxQueue(0) }
func (r *rig) tx() port.TxQueue { return r.port.TxQueue(0) }

// packet makes a packet of the given segments from the pool.
func (r *rig) packet(segments ...[]byte) *mbuf.Buf {
	return r.packetAt(mbuf.Headroom, segments...)
}

// packetAt makes a packet whose first segment's data starts at offset within
// its buffer, behind bytes that are not zero.
func (r *rig) packetAt(offset int, segments ...[]byte) *mbuf.Buf {
	r.t.Helper()
	var head *mbuf.Buf
	for _, s := range segments {
		b := r.pool.Get()
		if b == nil {
			r.t.Fatal("the pool is empty")
		}
		if head == nil {
			moveStart(b, offset)
		}
		copy(b.Append(len(s)), s)
		if head == nil {
			head = b
		} else {
			head.Chain(b)
		}
	}
	return head
}

func moveStart(b *mbuf.Buf, offset int) {
	if offset > mbuf.Headroom {
		b.Append(offset - mbuf.Headroom)
		b.TrimFront(offset - mbuf.Headroom)
	} else {
		b.Prepend(mbuf.Headroom - offset)
		b.Truncate(0)
	}
	front := b.Head(b.Headroom())
	for i := range front {
		front[i] = 0xa5
	}
}

// send sends one packet and takes the frame at the device.
func (r *rig) send(b *mbuf.Buf) fakedev.Frame {
	r.t.Helper()
	if n := r.tx().Burst([]*mbuf.Buf{b}); n != 1 {
		r.t.Fatalf("Burst took %d packets, want 1", n)
	}
	f, err := r.dev.TakeSent(0)
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// complete gives a frame's chain back and makes the driver see it.
func (r *rig) complete(f fakedev.Frame) {
	r.dev.Queue(virtio.TxQueue(0)).Use(uint32(f.Chain.Head), 0)
	r.tx().Reclaim()
}

// receive polls once and returns the packets' contents; the packets are freed.
func (r *rig) receive(max int) [][]byte {
	pkts := make([]*mbuf.Buf, max)
	n := r.rx().Burst(pkts)
	var frames [][]byte
	for _, b := range pkts[:n] {
		frames = append(frames, contents(b))
		b.Free()
	}
	return frames
}

// contents joins a packet's segments.
func contents(b *mbuf.Buf) []byte {
	var all []byte
	for ; b != nil; b = b.Next() {
		all = append(all, b.Bytes()...)
	}
	return all
}

// frame makes n bytes that differ by seed and by place.
func frame(n int, seed byte) []byte {
	f := make([]byte, n)
	for i := range f {
		f[i] = seed ^ byte(i) ^ byte(i>>8)
	}
	return f
}
