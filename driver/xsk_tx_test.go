package driver_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

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

// Completions come late, in any order, for the frames that the device is done
// with and no others.
func TestXSKCompletionsInAnyOrder(t *testing.T) {
	for _, kind := range ringKinds {
		t.Run(kind.name, func(t *testing.T) {
			r := startXSK(t, xskRigConfig{rigConfig: rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts}})
			rng := rand.New(rand.NewPCG(6, 8))
			free := make([]uint64, r.umem.Frames())
			for i := range free {
				free[i] = uint64(i*2048 + 128)
			}
			var held []fakedev.Frame
			var done []uint64 // that the device is done with, to appear
			for round := range 2000 {
				n := rng.IntN(len(free) + 1)
				for _, addr := range free[:n] {
					r.submit(r.fill(addr, 60, byte(addr>>11)))
				}
				free = free[n:]
				r.xsk.Poll()
				held = append(held, r.takeSent()...)
				rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
				keep := rng.IntN(len(held) + 1)
				for _, f := range held[keep:] {
					addr := f.Chain.Buffers[0].Addr - r.base() + virtio.NetHeaderSize
					if !bytes.Equal(f.Data, frame(60, byte(addr>>11))) {
						t.Fatalf("round %d: the frame at %#x was changed", round, addr)
					}
					done = append(done, addr)
					r.use(f)
				}
				held = held[:keep]
				for r.xsk.Poll() > 0 {
				}
				held = append(held, r.takeSent()...)
				got := r.completed()
				free = append(free, got...)
				slices.Sort(got)
				slices.Sort(done)
				if !slices.Equal(got, done) {
					t.Fatalf("round %d: completed %#x, the device is done with %#x", round, got, done)
				}
				done = done[:0]
				if n := len(free) + len(held); n != r.umem.Frames() || r.xsk.Stats() != (driver.XSKStats{}) {
					t.Fatalf("round %d: %d of %d frames are free or with the device; %+v, %v", round, n, r.umem.Frames(), r.xsk.Stats(), r.xsk.Err())
				}
			}
		})
	}
}

// base is the device address of the UMEM, in memory with virtual addresses.
func (r *xskRig) base() uint64 {
	return uint64(mbuf.Region{Bytes: r.umem.Bytes()}.Addr())
}

// A device that completes a frame twice breaks the queue; the frame is there
// once, the others after the stop.
func TestXSKCompletedTwice(t *testing.T) {
	for _, kind := range ringKinds {
		r := startXSK(t, xskRigConfig{rigConfig: rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts}})
		r.submit(r.fill(128, 60, 1), r.fill(2048+128, 60, 2))
		r.xsk.Poll()
		sent := r.takeSent()
		r.use(sent[0])
		r.use(sent[0])
		r.xsk.Poll()
		if got := r.completed(); !slices.Equal(got, []uint64{128}) || r.tx().Err() == nil {
			t.Errorf("%s: completed %#x, %v", kind.name, got, r.tx().Err())
		}
		if err := r.port.Stop(); err != nil {
			t.Fatal(err)
		}
		if got := r.completed(); !slices.Equal(got, []uint64{2048 + 128}) {
			t.Errorf("%s: completed by the stop: %#x", kind.name, got)
		}
	}
}

// What the device never completes comes back with the stop, and with the reset
// of the queue; what waits on the tx ring is sent after the next start.
func TestXSKStopWithFramesInFlight(t *testing.T) {
	stops := map[string]func(*xskRig) error{
		"stop and start": func(r *xskRig) error { return errors.Join(r.port.Stop(), r.port.Start()) },
		"restart":        func(r *xskRig) error { return r.port.Restart() },
		"queue reset":    func(r *xskRig) error { return r.port.ResetTxQueue(0) },
	}
	for name, stop := range stops {
		for _, kind := range append(ringKinds, inOrderKinds...) {
			t.Run(name+"/"+kind.name, func(t *testing.T) {
				offer := fakedev.DefaultFeatures | virtio.RingReset | kind.offer
				r := startXSK(t, xskRigConfig{rigConfig: rigConfig{dev: fakedev.Config{Offered: offer, QueueSize: 4}, opts: kind.opts}})
				var all []uint64
				for i := range uint64(8) {
					all = append(all, i*2048+128)
					r.submit(r.fill(all[i], 60, byte(i)))
				}
				r.xsk.Poll() // four go to the device, four wait
				if n := len(r.takeSent()); n != 4 || r.xsk.Outstanding() != 8 {
					t.Fatalf("%d sent, %d outstanding", n, r.xsk.Outstanding())
				}
				if err := stop(r); err != nil {
					t.Fatal(err)
				}
				got := r.completed()
				slices.Sort(got)
				if !slices.Equal(got, all[:4]) {
					t.Errorf("completed %#x, want %#x", got, all[:4])
				}
				r.xsk.Poll()
				for i, f := range r.takeSent() {
					if !bytes.Equal(f.Data, frame(60, byte(i+4))) {
						t.Errorf("frame %d after the start carries %x", i, f.Data)
					}
					r.use(f)
				}
				r.xsk.Poll()
				if got := r.completed(); !slices.Equal(sorted(got), all[4:]) {
					t.Errorf("completed %#x, want %#x", got, all[4:])
				}
			})
		}
	}
}

func sorted(s []uint64) []uint64 {
	slices.Sort(s)
	return s
}

// Close says how many frames the device has, and the port's ordinary traffic
// goes on.
func TestXSKCloseWithFramesInFlight(t *testing.T) {
	r := startXSK(t, xskRigConfig{})
	r.submit(r.fill(128, 60, 1), r.fill(2048+128, 60, 2))
	r.xsk.Poll()
	err := r.xsk.Close(done())
	if !errors.Is(err, port.ErrState) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "2 frames are still with the device") {
		t.Errorf("Close: %v", err)
	}
	if err := r.umem.Close(done()); !errors.Is(err, port.ErrState) {
		t.Errorf("Close of the UMEM: %v", err)
	}
	sent := r.takeSent()
	var device sync.WaitGroup
	device.Go(func() {
		time.Sleep(20 * time.Millisecond)
		r.use(sent[0])
		r.use(sent[1])
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.xsk.Close(ctx); err != nil {
		t.Fatal(err)
	}
	device.Wait()
	if got := sorted(r.completed()); !slices.Equal(got, []uint64{128, 2048 + 128}) {
		t.Errorf("completed %#x", got)
	}
	if f := r.send(r.packet(frame(64, 9))); !bytes.Equal(f.Data, frame(64, 9)) {
		t.Error("ordinary packets do not go on")
	} else {
		r.complete(f)
	}
	if err := r.umem.Close(done()); err != nil {
		t.Error(err)
	}
	if _, err := r.port.NewXSK(r.umem, driver.XSKConfig{TxSize: 8}); !errors.Is(err, port.ErrClosed) {
		t.Errorf("an XSK on a closed UMEM: %v", err)
	}
}

// B06, B08: completions come without anything new to send, whether the
// descriptors are all in use or next to none, also when far fewer are configured
// than the device has.
func TestB08XSKCompletesWithoutSending(t *testing.T) {
	for _, kind := range append(ringKinds, inOrderKinds...) {
		r := startXSK(t, xskRigConfig{rigConfig: rigConfig{
			dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 1024}, opts: kind.opts,
			port: port.Config{TxDesc: 32, TxFreeThresh: 1},
		}})
		for round := range 500 {
			frames := 1 + round%32
			for i := range uint64(frames) {
				r.submit(r.fill(i*2048+128, 60, 1))
			}
			for r.xsk.Poll() > 0 {
				for _, f := range r.takeSent() {
					r.use(f)
				}
			}
			if n := len(r.completed()); n != frames || r.xsk.Outstanding() != 0 {
				t.Fatalf("%s, round %d: %d completed, %d outstanding", kind.name, round, n, r.xsk.Outstanding())
			}
		}
	}
}

// A completion ring that nobody empties holds frames back, and loses none.
func TestXSKFullCompletionRing(t *testing.T) {
	r := startXSK(t, xskRigConfig{umem: driver.UMEMConfig{CompletionSize: 8}})
	for addr := uint64(128); addr < 32*2048; addr += 2048 {
		r.submit(r.fill(addr, 60, 1))
	}
	total := map[uint64]int{}
	for range 4 {
		for range 5 {
			r.xsk.Poll()
			for _, f := range r.takeSent() {
				r.use(f)
			}
		}
		got := r.completed()
		if len(got) != 8 {
			t.Fatalf("%d completed on a ring of 8", len(got))
		}
		for _, addr := range got {
			total[addr]++
		}
	}
	if len(total) != 32 {
		t.Errorf("%d different frames came back, want 32", len(total))
	}
}

func TestXSKRefusesDescriptors(t *testing.T) {
	end := uint64(64 * 2048)
	tests := []struct {
		name string
		bad  driver.XSKDesc
		says string
		back bool // the frame comes back
	}{
		{"no bytes", driver.XSKDesc{Addr: 4096}, "no bytes", true},
		{"beyond the UMEM", driver.XSKDesc{Addr: end, Len: 60}, "the UMEM ends at 0x20000", false},
		{"far beyond", driver.XSKDesc{Addr: ^uint64(0), Len: 60}, "the UMEM ends", false},
		{"over the frame's end", driver.XSKDesc{Addr: 4096 + 2000, Len: 49}, "beyond the end of its frame", true},
		{"longer than a frame", driver.XSKDesc{Addr: 4096, Len: 1 << 31}, "beyond the end of its frame", true},
		{"unknown option", driver.XSKDesc{Addr: 4096, Len: 60, Options: 1 << 5}, "options", true},
		{"in flight", driver.XSKDesc{Addr: 128 + 1000, Len: 60}, "in transmission already", false},
		{"an offload that is off", driver.XSKDesc{Addr: 4096, Len: 60, Options: driver.XSKMetadata}, "not started with", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startXSK(t, xskRigConfig{})
			r.umem.Meta(4096).Flags = mbuf.TxUDPChecksum | mbuf.TxIPv4
			r.submit(r.fill(128, 60, 1), tt.bad, r.fill(8192, 60, 2))
			r.xsk.Poll()
			sent := r.takeSent()
			if len(sent) != 2 || !bytes.Equal(sent[1].Data, frame(60, 2)) {
				t.Fatalf("%d frames were sent, want the two good ones", len(sent))
			}
			want := []uint64(nil)
			if tt.back {
				want = []uint64{tt.bad.Addr}
			}
			if got := r.completed(); !slices.Equal(got, want) {
				t.Errorf("completed %#x, want %#x", got, want)
			}
			err := r.xsk.Err()
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "tx descriptor 1 (") {
				t.Errorf("%v, want %q of descriptor 1", err, tt.says)
			}
			if s := r.xsk.Stats(); s.TxInvalid != 1 {
				t.Errorf("%d invalid descriptors, want 1", s.TxInvalid)
			}
		})
	}
}

// A frame of several descriptors is one packet, and each of them comes back.
func TestXSKFramesOfSeveralBuffers(t *testing.T) {
	for _, kind := range append(ringKinds, inOrderKinds...) {
		t.Run(kind.name, func(t *testing.T) {
			r := startXSK(t, xskRigConfig{rigConfig: rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts}})
			want := []byte(nil)
			var addrs []uint64
			for i := range uint64(3) {
				d := r.fill(i*2048+128, 500, byte(i))
				if i < 2 {
					d.Options = driver.XSKContinued
				}
				want = append(want, frame(500, byte(i))...)
				addrs = append(addrs, d.Addr)
				r.submit(d)
				r.xsk.Poll() // the frame goes when it is whole
			}
			f := r.takeSent()
			if len(f) != 1 || !bytes.Equal(f[0].Data, want) {
				t.Fatalf("%d frames", len(f))
			}
			r.use(f[0])
			r.xsk.Poll()
			if got := sorted(r.completed()); !slices.Equal(got, addrs) {
				t.Errorf("completed %#x, want %#x", got, addrs)
			}
		})
	}
}

// A frame with a bad part is dropped whole; its good parts come back.
func TestXSKRefusesWholeFrames(t *testing.T) {
	more := driver.XSKContinued
	r := startXSK(t, xskRigConfig{})
	part := func(frame uint64, o driver.XSKOptions) driver.XSKDesc {
		return driver.XSKDesc{Addr: frame*2048 + 128, Len: 60, Options: o}
	}
	var long []driver.XSKDesc
	for i := range uint64(20) {
		long = append(long, part(30+i, more))
	}
	long[19].Options = 0
	tests := []struct {
		name  string
		descs []driver.XSKDesc
		back  int
	}{
		{"bad in the middle", []driver.XSKDesc{part(0, more), {Addr: 4096, Options: more}, part(3, more), part(4, 0)}, 4},
		{"bad at the end", []driver.XSKDesc{part(0, more), {Addr: 99 << 40, Len: 60}}, 1},
		{"twice the same", []driver.XSKDesc{part(0, more), part(0, more), part(1, 0)}, 2},
		{"late metadata", []driver.XSKDesc{part(0, more), part(1, driver.XSKMetadata)}, 2},
		{"too long", long, 20},
	}
	for _, tt := range tests {
		r.submit(tt.descs...)
		r.submit(r.fill(60*2048+128, 60, 9))
		r.xsk.Poll()
		sent := r.takeSent()
		if len(sent) != 1 || !bytes.Equal(sent[0].Data, frame(60, 9)) {
			t.Fatalf("%s: %d frames were sent, want the good one behind it", tt.name, len(sent))
		}
		if got := sorted(r.completed()); len(got) != tt.back || len(slices.Compact(got)) != tt.back {
			t.Errorf("%s: completed %#x, want %d", tt.name, got, tt.back)
		}
		r.use(sent[0])
		r.xsk.Poll()
		r.completed()
	}
}

// Checksum and segmentation are asked for frame by frame.
func TestXSKMetadata(t *testing.T) {
	r := startXSK(t, xskRigConfig{rigConfig: rigConfig{port: port.Config{TxOffloads: port.TxTCPCksum | port.TxTCPTSO}}})
	data := tcpFrame(ipv4, 1000)
	d := driver.XSKDesc{Addr: 2048 + 128, Len: uint32(len(data)), Options: driver.XSKMetadata}
	copy(r.umem.Data(d.Addr, len(data)), data)
	*r.umem.Meta(d.Addr) = driver.TxMeta{Flags: mbuf.TxTSO | mbuf.TxIPv4, L2Len: 14, L3Len: 20, L4Len: 20, SegSize: 300}
	r.submit(d, r.fill(4096+128, 60, 1))
	r.xsk.Poll()
	sent := r.takeSent()
	want := virtio.NetHeader{Flags: virtio.HdrNeedsCSum, GSOType: virtio.GSOTCPv4, HdrLen: 54, GSOSize: 300, CSumStart: 34, CSumOffset: 16}
	if len(sent) != 2 || sent[0].Header != want || sent[1].Header != (virtio.NetHeader{}) {
		t.Fatalf("headers of %d frames: %+v", len(sent), sent)
	}
	for _, f := range sent {
		r.use(f)
	}
	r.xsk.Poll()
	if n := len(r.completed()); n != 2 {
		t.Errorf("%d completed", n)
	}
}

// Ordinary, external and UMEM frames share a queue; each goes back where it
// belongs, and an XSK comes and goes without a loss of the others.
func TestXSKSharesTheQueue(t *testing.T) {
	for _, kind := range append(ringKinds, inOrderKinds...) {
		t.Run(kind.name, func(t *testing.T) {
			r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 64}, opts: kind.opts})
			area := anonymous(t, 64*2048)
			own, err := r.mem.Register(mbuf.Area{Bytes: anonymous(t, 4096)})
			if err != nil {
				t.Fatal(err)
			}
			released := 0
			copy(own.Bytes(), frame(60, 7))
			external, err := r.mem.NewExternal(own.Bytes()[:60], func() { released++ })
			if err != nil {
				t.Fatal(err)
			}
			sent, got := map[byte]int{}, map[byte]int{}
			ordinary := func() {
				b := r.pool.Get()
				if !external.Attach(b, 0, 60) {
					t.Fatal("nothing attached")
				}
				for seed, b := range map[byte]*mbuf.Buf{5: r.packet(frame(60, 5)), 7: b} {
					if r.tx().Burst([]*mbuf.Buf{b}) == 1 {
						sent[seed]++
					} else {
						b.Free()
					}
				}
			}
			work := func() {
				frames, err := r.dev.Sent(0)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range frames {
					for _, seed := range []byte{5, 6, 7} {
						if bytes.Equal(f.Data, frame(60, seed)) {
							got[seed]++
						}
					}
				}
			}
			for range 50 {
				ordinary()
				u, err := driver.NewUMEM(r.mem, driver.UMEMConfig{Area: mbuf.Area{Bytes: area}})
				if err != nil {
					t.Fatal(err)
				}
				x, err := r.port.NewXSK(u, driver.XSKConfig{TxSize: 16})
				if err != nil {
					t.Fatal(err)
				}
				xr := &xskRig{rig: r, umem: u, xsk: x}
				for i := range uint64(10) {
					xr.submit(xr.fill(i*2048+128, 60, 6))
					sent[6]++
					ordinary()
					x.Poll()
				}
				work()
				if err := x.Close(done()); err != nil {
					t.Fatal(err)
				}
				if n := len(xr.completed()); n != 10 {
					t.Fatalf("%d frames completed, want 10", n)
				}
				if err := u.Close(done()); err != nil {
					t.Fatal(err)
				}
				ordinary()
				work()
			}
			r.tx().Reclaim()
			for seed, n := range sent {
				if got[seed] != n {
					t.Errorf("kind %d: %d sent, the device read %d", seed, n, got[seed])
				}
			}
			if external.Release(); released != 1 {
				t.Errorf("the external memory was given back %d times", released)
			}
			if err := own.Unregister(done()); err != nil {
				t.Error(err)
			}
		})
	}
}
