package driver_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
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
		for _, f := range []func() error{
			r.port.Stop,
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

// A frame is sent from the application's memory, and is on the completion ring
// when the device is done with it and not before.
func TestXSKSendsWithoutCopy(t *testing.T) {
	for _, kind := range append(ringKinds, inOrderKinds...) {
		for _, opts := range []bool{false, true} {
			kind.opts.NoSimpleTx = opts
			t.Run(kind.name, func(t *testing.T) {
				r := startXSK(t, xskRigConfig{rigConfig: rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts}})
				const addr = 3*2048 + 256
				r.submit(r.fill(addr, 100, 7))
				r.xsk.Poll()
				f, err := r.dev.TakeSent(0)
				if err != nil {
					t.Fatal(err)
				}
				if want := frame(100, 7); !bytes.Equal(f.Data, want) || f.Header != (virtio.NetHeader{}) {
					t.Errorf("the device reads %x behind %+v, want %x", f.Data, f.Header, want)
				}
				read := f.Chain.Buffers[0].Bytes
				if &read[len(read)-1] != &r.umem.Bytes()[addr+99] || len(f.Chain.Buffers) != 1 {
					t.Error("the device does not read the application's memory, in one piece")
				}
				if r.xsk.Poll(); len(r.completed()) != 0 || r.xsk.Outstanding() != 1 {
					t.Error("the frame came back while the device has it")
				}
				r.dev.Queue(virtio.TxQueue(0)).Use(uint32(f.Chain.Head), 0)
				r.xsk.Poll()
				if got := r.completed(); len(got) != 1 || got[0] != addr || r.xsk.Outstanding() != 0 {
					t.Errorf("completed %#x, want %#x", got, addr)
				}
			})
		}
	}
}

// The header never goes outside of the frame: at its start it has a descriptor
// of its own.
func TestXSKHeaderStaysInTheFrame(t *testing.T) {
	for _, offset := range []uint64{0, 1, 11, 12, 13, 64} {
		r := startXSK(t, xskRigConfig{})
		for i := range r.umem.Bytes() {
			r.umem.Bytes()[i] = 0xa5
		}
		addr := 5*2048 + offset
		r.submit(r.fill(addr, 60, 3))
		r.xsk.Poll()
		f, err := r.dev.TakeSent(0)
		if err != nil {
			t.Fatal(err)
		}
		pieces := 1
		if offset < virtio.NetHeaderSize {
			pieces = 2
		}
		if !bytes.Equal(f.Data, frame(60, 3)) || len(f.Chain.Buffers) != pieces {
			t.Errorf("offset %d: %d descriptors, want %d; the device reads %x", offset, len(f.Chain.Buffers), pieces, f.Data)
		}
		for at, v := range r.umem.Bytes() {
			inFrame := uint64(at) >= 5*2048 && uint64(at) < addr+60
			if v != 0xa5 && !inFrame {
				t.Fatalf("offset %d: byte %#x was written, outside of what was sent", offset, at)
			}
		}
	}
}

func TestUMEMIsRefused(t *testing.T) {
	r := newRig(t, rigConfig{})
	area := anonymous(t, 16*4096)
	tests := []struct {
		name string
		cfg  driver.UMEMConfig
		says string
	}{
		{"nothing", driver.UMEMConfig{}, "no area"},
		{"not aligned", driver.UMEMConfig{Area: mbuf.Area{Bytes: area[2048 : 4*4096+2048]}}, "multiples of the page"},
		{"frame too small", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, FrameSize: 128}, "256 to 32768"},
		{"frame no power of two", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, FrameSize: 3000}, "power of two"},
		{"frame does not divide", driver.UMEMConfig{Area: mbuf.Area{Bytes: area[:3*4096]}, FrameSize: 8192}, "4096 bytes over"},
		{"another number of frames", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, Frames: 31}, "leave the number out"},
		{"ring no power of two", driver.UMEMConfig{Area: mbuf.Area{Bytes: area}, FillSize: 100}, "fill ring of 100"},
		{"heap", driver.UMEMConfig{Area: mbuf.Area{Bytes: pageOfHeap()}}, "Go heap"},
	}
	for _, tt := range tests {
		_, err := driver.NewUMEM(r.mem, tt.cfg)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
	u, err := driver.NewUMEM(r.mem, driver.UMEMConfig{Area: mbuf.Area{Bytes: area}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := driver.NewUMEM(r.mem, driver.UMEMConfig{Area: mbuf.Area{Bytes: area[8*4096:]}}); err == nil || !strings.Contains(err.Error(), "overlaps") {
		t.Errorf("the same memory twice: %v", err)
	}
	for _, cfg := range []driver.XSKConfig{{}, {Queue: 1, TxSize: 64}, {Queue: -1, TxSize: 64}, {TxSize: 63}, {RxSize: -1}} {
		if _, err := r.port.NewXSK(u, cfg); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", cfg, err)
		}
	}
	if err := u.Close(done()); err != nil {
		t.Error(err)
	}
}

// pageOfHeap gives a page of the Go heap.
func pageOfHeap() []byte {
	b := make([]byte, 8192)
	at := 0
	for ; mbuf.Region.Addr(mbuf.Region{Bytes: b[at:]})%4096 != 0; at++ {
	}
	return b[at : at+4096]
}
