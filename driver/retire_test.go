package driver_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// stuckRig has a device that can't be reset: it was sent six ordinary buffers in
// five packets and three frames of a UMEM, of each it has used one packet, and
// of ten receive buffers too.
func stuckRig(t *testing.T, kind ringKind) (r *xskRig, held []fakedev.Frame) {
	r = startXSK(t, xskRigConfig{rigConfig: rigConfig{
		dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 32}, opts: kind.opts,
	}})
	for i := range 4 {
		r.sendOnly(r.packet(frame(60, byte(i))))
	}
	r.sendOnly(r.packet(frame(60, 4), frame(60, 4)))
	first := r.takeSent()
	r.submit(r.fill(128, 60, 10), r.fill(2048+128, 60, 11), r.fill(4096+128, 60, 12))
	r.xsk.Poll()
	frames := r.takeSent()
	if len(first) != 5 || len(frames) != 3 {
		t.Fatalf("%d packets and %d frames were sent", len(first), len(frames))
	}
	r.use(first[0])
	if kind.opts.InOrder { // the others of the packets come before any frame
		for _, f := range first[1:] {
			r.use(f)
		}
		first = first[:1]
	}
	r.use(frames[0])
	if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(60, 20)); err != nil {
		t.Fatal(err)
	}
	r.dev.StickReset(true)
	return r, append(first[1:], frames[1:]...)
}

// sendOnly sends a packet that the device is not made to look at.
func (r *xskRig) sendOnly(b *mbuf.Buf) {
	r.t.Helper()
	if n := r.tx().Burst([]*mbuf.Buf{b}); n != 1 {
		r.t.Fatal("the packet was not taken")
	}
}

// A device that could not be reset may still read and write what it owns:
// that is nobody else's, and what it is done with is free.
func TestStopHoldsBackWhatTheDeviceOwns(t *testing.T) {
	ends := map[string]func(*xskRig) error{
		"start": func(r *xskRig) error {
			r.dev.StickReset(false)
			return errors.Join(r.port.Start(), r.port.Stop())
		},
		"close": func(r *xskRig) error { return r.port.Close() },
	}
	for end, free := range ends {
		for _, kind := range append(ringKinds, inOrderKinds...) {
			t.Run(end+"/"+kind.name, func(t *testing.T) {
				r, held := stuckRig(t, kind)
				sent, says := 5+2, "38 buffers are still with the device" // and 31 to receive into
				if kind.opts.InOrder {
					sent, says = 0+2, "33 buffers are still with the device"
				}
				err := r.port.Stop()
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("Stop: %v, want %q", err, says)
				}
				if err := r.port.Stop(); err != nil {
					t.Errorf("a second Stop: %v", err)
				}
				if n := r.pool.Size() - r.pool.Free(); n != 31+sent-2 {
					t.Errorf("%d buffers are out of the pool, want %d", n, 31+sent-2)
				}
				if got := r.completed(); len(got) != 1 || got[0] != 128 || r.xsk.Outstanding() != 2 {
					t.Errorf("completed %#x, %d outstanding; the device has used one frame of three", got, r.xsk.Outstanding())
				}
				if err := r.port.Start(); err == nil {
					t.Error("Start with a device that can't be reset")
				}
				if r.xsk.Poll(); len(r.completed()) != 0 {
					t.Error("a frame came back that the device owns")
				}
				if err := r.xsk.Close(done()); !errors.Is(err, port.ErrState) || !strings.Contains(err.Error(), "2 frames are still with the device") {
					t.Errorf("Close of the XSK: %v", err)
				}
				scribble(r.pool)
				for _, f := range held {
					seed := f.Data[0]
					for _, b := range f.Chain.Buffers {
						data := b.Bytes[len(b.Bytes)-60:]
						if !bytes.Equal(data, frame(60, seed)) {
							t.Errorf("the device reads %x, want %x", data, frame(60, seed))
						}
					}
				}
				if err := free(r); err != nil {
					t.Fatal(err)
				}
				r.xsk.Poll()
				if got := sorted(r.completed()); len(got) != 2 || got[0] != 2048+128 || got[1] != 4096+128 {
					t.Errorf("completed %#x in the end", got)
				}
				if n := r.pool.Free(); n != r.pool.Size() {
					t.Errorf("%d of %d buffers are in the pool in the end", n, r.pool.Size())
				}
			})
		}
	}
}

// A device that is gone owns nothing: it can't be reset, and need not.
func TestStopOfAGoneDevice(t *testing.T) {
	r := startXSK(t, xskRigConfig{})
	r.submit(r.fill(128, 60, 1))
	r.xsk.Poll()
	r.dev.Remove()
	if err := r.port.Stop(); !errors.Is(err, port.ErrGone) || strings.Contains(err.Error(), "held back") {
		t.Errorf("Stop: %v", err)
	}
	if got := r.completed(); len(got) != 1 || r.pool.Free() != r.pool.Size() {
		t.Errorf("completed %#x, %d of %d buffers are in the pool", got, r.pool.Free(), r.pool.Size())
	}
}

// scribble overwrites every buffer that is free.
func scribble(pool *mbuf.Pool) {
	var all []*mbuf.Buf
	for b := pool.Get(); b != nil; b = pool.Get() {
		for i := range b.Raw() {
			b.Raw()[i] = 0xee
		}
		all = append(all, b)
	}
	for _, b := range all {
		b.Free()
	}
}

// A queue that was reset and could not be set up again does nothing more; its
// buffers come back once, whatever follows: the rig counts them in the end.
func TestQueueThatIsNotSetUpAgain(t *testing.T) {
	for _, kind := range ringKinds {
		offer := fakedev.DefaultFeatures | virtio.RingReset | kind.offer
		r := startXSK(t, xskRigConfig{rigConfig: rigConfig{dev: fakedev.Config{Offered: offer, QueueSize: 16}, opts: kind.opts}})
		r.sendOnly(r.packet(frame(60, 1)))
		r.submit(r.fill(128, 60, 2))
		r.xsk.Poll()
		r.dev.FailSetup(virtio.TxQueue(0))
		if err := r.port.ResetTxQueue(0); err == nil || r.tx().Err() == nil {
			t.Fatalf("%s: %v, then %v", kind.name, err, r.tx().Err())
		}
		r.dev.FailSetup(virtio.RxQueue(0))
		if err := r.port.ResetRxQueue(0); err == nil || r.rx().Err() == nil {
			t.Fatalf("%s: %v, then %v", kind.name, err, r.rx().Err())
		}
		if got := r.completed(); len(got) != 1 || got[0] != 128 {
			t.Errorf("%s: completed %#x", kind.name, got)
		}
		r.submit(r.fill(2048+128, 60, 3))
		r.xsk.Poll()
		b := r.packet(frame(60, 4))
		if r.tx().Burst([]*mbuf.Buf{b}) != 0 || r.rx().Burst(make([]*mbuf.Buf, 4)) != 0 {
			t.Errorf("%s: a queue without a ring moves packets", kind.name)
		}
		b.Free()
		r.dev.FailSetup(-1)
		if err := r.port.Restart(); err != nil {
			t.Fatal(err)
		}
		r.xsk.Poll()
		for _, f := range r.takeSent() {
			r.use(f)
		}
		r.xsk.Poll()
		if got := r.completed(); len(got) != 1 || got[0] != 2048+128 {
			t.Errorf("%s: completed %#x after the restart", kind.name, got)
		}
	}
}
