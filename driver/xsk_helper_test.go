package driver_test

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/port"
	"vionet/virtio"
)

// xskRig is a rig with a UMEM in memory of the test's own, bound to pair 0.
type xskRig struct {
	*rig
	umem *driver.UMEM
	xsk  *driver.XSK
}

type xskRigConfig struct {
	rigConfig
	umem driver.UMEMConfig // 64 frames of 2048 bytes, unless said otherwise
	xsk  driver.XSKConfig  // a tx ring of 64, unless said otherwise
}

// anonymous maps memory as an application would.
func anonymous(t testing.TB, size int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

func startXSK(t testing.TB, c xskRigConfig) *xskRig {
	t.Helper()
	if c.umem.Area.Bytes == nil {
		c.umem.Area.Bytes = anonymous(t, 64*2048)
	}
	if c.xsk == (driver.XSKConfig{}) {
		c.xsk.TxSize = 64
	}
	r := &xskRig{rig: startRig(t, c.rigConfig)}
	var err error
	if r.umem, err = driver.NewUMEM(r.mem, c.umem); err != nil {
		t.Fatal(err)
	}
	if r.xsk, err = r.port.NewXSK(r.umem, c.xsk); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.port.Stop(); err != nil && !errors.Is(err, port.ErrClosed) {
			t.Error(err)
		}
		for _, f := range []func() error{
			func() error { return r.xsk.Close(done()) },
			func() error { return r.umem.Close(done()) },
		} {
			if err := f(); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// done is a context that is done.
func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// submit puts descriptors on the tx ring.
func (r *xskRig) submit(descs ...driver.XSKDesc) {
	r.t.Helper()
	if n := r.xsk.Tx.Reserve(len(descs)); n != len(descs) {
		r.t.Fatalf("%d slots of the tx ring, want %d", n, len(descs))
	}
	for i, d := range descs {
		*r.xsk.Tx.Slot(i) = d
	}
	if err := r.xsk.Tx.Submit(len(descs)); err != nil {
		r.t.Fatal(err)
	}
}

// completed takes all that is on the completion ring.
func (r *xskRig) completed() (addrs []uint64) {
	r.t.Helper()
	n := r.umem.Completion.Peek(r.umem.Completion.Size())
	for i := range n {
		addrs = append(addrs, *r.umem.Completion.At(i))
	}
	if err := r.umem.Completion.Release(n); err != nil {
		r.t.Fatal(err)
	}
	return addrs
}

// fill writes a frame and gives its descriptor.
func (r *xskRig) fill(addr uint64, n int, seed byte) driver.XSKDesc {
	copy(r.umem.Data(addr, n), frame(n, seed))
	return driver.XSKDesc{Addr: addr, Len: uint32(n)}
}

// takeSent takes all frames that the device was sent, without completing them.
func (r *xskRig) takeSent() (frames []fakedev.Frame) {
	r.t.Helper()
	for r.dev.Queue(virtio.TxQueue(0)).Available() > 0 {
		f, err := r.dev.TakeSent(0)
		if err != nil {
			r.t.Fatal(err)
		}
		frames = append(frames, f)
	}
	return frames
}

// use completes a frame at the device.
func (r *xskRig) use(f fakedev.Frame) { r.dev.Queue(virtio.TxQueue(0)).Use(uint32(f.Chain.Head), 0) }
