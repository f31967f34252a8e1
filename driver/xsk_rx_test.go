package driver_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// post puts frames on the fill ring.
func (r *xskRig) post(addrs ...uint64) {
	r.t.Helper()
	if n := r.umem.Fill.Reserve(len(addrs)); n != len(addrs) {
		r.t.Fatalf("%d slots of the fill ring, want %d", n, len(addrs))
	}
	for i, addr := range addrs {
		*r.umem.Fill.Slot(i) = addr
	}
	if err := r.umem.Fill.Submit(len(addrs)); err != nil {
		r.t.Fatal(err)
	}
}

// received takes all that is on the rx ring.
func (r *xskRig) received() (descs []driver.XSKDesc) {
	r.t.Helper()
	n := r.xsk.Rx.Peek(r.xsk.Rx.Size())
	for i := range n {
		descs = append(descs, *r.xsk.Rx.At(i))
	}
	if err := r.xsk.Rx.Release(n); err != nil {
		r.t.Fatal(err)
	}
	return descs
}

// startRx starts an XSK that receives; in place when zeroCopy says so.
func startRx(t *testing.T, zeroCopy bool, c xskRigConfig) *xskRig {
	t.Helper()
	if c.xsk.RxSize == 0 {
		c.xsk.RxSize, c.xsk.TxSize = 64, 64
	}
	r := startXSK(t, c)
	if !zeroCopy {
		return r
	}
	for _, err := range []error{r.port.Stop(), r.port.Configure(port.Config{Pool: r.umem.Pool(), RxDesc: 32}), r.port.Start()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Received packets lie in frames of the fill ring, which come back with them and
// can be sent on as they are.
func TestXSKReceives(t *testing.T) {
	for _, zeroCopy := range []bool{true, false} {
		for _, kind := range append(ringKinds, inOrderKinds...) {
			t.Run(kind.name, func(t *testing.T) {
				r := startRx(t, zeroCopy, xskRigConfig{rigConfig: rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts}})
				if r.xsk.ZeroCopyRx() != zeroCopy {
					t.Fatalf("zero copy %v, want %v", !zeroCopy, zeroCopy)
				}
				var own []uint64
				for i := range uint64(40) {
					own = append(own, i*2048+77) // any address in the frame will do
				}
				for round := range 50 {
					r.post(own...)
					r.xsk.Poll()
					for i := range 8 {
						if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(100+i, byte(round))); err != nil {
							t.Fatalf("round %d: %v", round, err)
						}
					}
					r.xsk.Poll()
					got := r.received()
					if len(got) != 8 {
						t.Fatalf("round %d: %d received", round, len(got))
					}
					for i, d := range got {
						if want := frame(100+i, byte(round)); !bytes.Equal(r.umem.Data(d.Addr, int(d.Len)), want) || d.Options != 0 {
							t.Fatalf("round %d: %+v, %x, want %x", round, d, r.umem.Data(d.Addr, int(d.Len)), want)
						}
					}
					r.submit(got...) // sent on in their own frames
					r.xsk.Poll()
					for i, f := range r.takeSent() {
						if !bytes.Equal(f.Data, frame(100+i, byte(round))) {
							t.Fatalf("round %d: sent on with %x", round, f.Data)
						}
						r.use(f)
					}
					r.xsk.Poll()
					if own = r.completed(); len(own) != 8 {
						t.Fatalf("round %d: %d completed", round, len(own))
					}
				}
				if s := r.xsk.Stats(); s != (driver.XSKStats{}) {
					t.Errorf("%+v: %v", s, r.xsk.Err())
				}
			})
		}
	}
}

// A packet that spans frames has a descriptor for each.
func TestXSKReceivesOverSeveralFrames(t *testing.T) {
	for _, zeroCopy := range []bool{true, false} {
		r := startRx(t, zeroCopy, xskRigConfig{})
		r.post(0, 2048, 4096, 6144, 8192, 10240, 12288, 14336)
		r.xsk.Poll()
		want := frame(5000, 3)
		if err := r.dev.Deliver(0, virtio.NetHeader{}, want); err != nil {
			t.Fatal(err)
		}
		r.xsk.Poll()
		var all []byte
		got := r.received()
		for i, d := range got {
			if more := d.Options&driver.XSKContinued != 0; more != (i < len(got)-1) {
				t.Errorf("descriptor %d of %d: %+v", i, len(got), d)
			}
			all = append(all, r.umem.Data(d.Addr, int(d.Len))...)
		}
		if len(got) != 3 || !bytes.Equal(all, want) {
			t.Errorf("zero copy %v: %d descriptors, %d bytes", zeroCopy, len(got), len(all))
		}
	}
}

// Entries of the fill ring that name no frame, or one that is not the
// application's, are refused and named.
func TestXSKRefusesFillEntries(t *testing.T) {
	r := startRx(t, false, xskRigConfig{})
	r.submit(r.fill(4096+128, 60, 1))
	r.xsk.Poll()
	for _, tt := range []struct {
		addr uint64
		says string
	}{
		{64 * 2048, "the UMEM ends"}, {4096, "in transmission"}, {8192 + 5, ""}, {8192, "through the fill ring"},
	} {
		before := r.xsk.Stats().RxInvalid
		r.post(tt.addr)
		r.xsk.Poll()
		refused := r.xsk.Stats().RxInvalid - before
		if tt.says == "" && refused != 0 || tt.says != "" && (refused != 1 || !strings.Contains(r.xsk.Err().Error(), tt.says)) {
			t.Errorf("%#x: %d refused, %v, want %q", tt.addr, refused, r.xsk.Err(), tt.says)
		}
	}
	r.submit(driver.XSKDesc{Addr: 8192 + 128, Len: 60})
	if r.xsk.Poll(); !strings.Contains(r.xsk.Err().Error(), "through the fill ring") {
		t.Errorf("a frame was sent that is to be received into: %v", r.xsk.Err())
	}
}

// Without room on the rx ring packets wait; without frames they are dropped,
// when they must be copied, and counted.
func TestXSKReceivesWithoutRoom(t *testing.T) {
	r := startRx(t, false, xskRigConfig{xsk: driver.XSKConfig{RxSize: 2}})
	r.post(0, 2048, 4096)
	for i := range 5 {
		if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(60, byte(i))); err != nil {
			t.Fatal(err)
		}
	}
	var seen []byte
	for range 10 {
		r.xsk.Poll()
		for _, d := range r.received() {
			seen = append(seen, r.umem.Data(d.Addr, 1)[0])
		}
	}
	if want := []byte{frame(1, 0)[0], frame(1, 1)[0], frame(1, 2)[0]}; !slices.Equal(seen, want) {
		t.Errorf("received %v, want %v", seen, want)
	}
	if s := r.xsk.Stats(); s.RxDropped != 2 {
		t.Errorf("%d dropped, want 2", s.RxDropped)
	}
}

// A UMEM that a port may receive into is not closed before the port stops.
func TestUMEMCloseWhileReceiving(t *testing.T) {
	r := startRx(t, true, xskRigConfig{})
	r.post(0, 2048, 4096)
	r.xsk.Poll()
	if err := r.xsk.Close(done()); err != nil {
		t.Fatal(err)
	}
	if err := r.umem.Close(done()); !errors.Is(err, port.ErrState) || !strings.Contains(err.Error(), "3 frames are still with the device") {
		t.Errorf("Close: %v", err)
	}
	if err := errors.Join(r.port.Stop(), r.umem.Close(done())); err != nil {
		t.Error(err)
	}
	if _, _, err := mbuf.NewFramePool(r.mem, "gone", r.umem.Bytes(), 2048); err == nil {
		t.Error("the memory is registered still")
	}
}
