package vhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"vionet/port"
	"vionet/virtio"
)

// ringKinds are the features that change how a ring works.
var ringKinds = []virtio.Features{
	0, virtio.InOrder, virtio.EventIdx, virtio.InOrder | virtio.EventIdx,
	virtio.RingPacked, virtio.RingPacked | virtio.InOrder, virtio.RingPacked | virtio.EventIdx,
	virtio.RingPacked | virtio.InOrder | virtio.EventIdx,
}

// Frames there and back, over rings of all kinds.
func TestLoopbackRings(t *testing.T) {
	for _, kind := range ringKinds {
		for _, mergeable := range []virtio.Features{0, virtio.NetMrgRxbuf} {
			t.Run(fmt.Sprint(kind|mergeable), func(t *testing.T) {
				r, l := loopRig(t, LoopbackConfig{Pairs: 2, Packed: true})
				if kind.Has(virtio.RingPacked) {
					r.size = 53
				}
				for round := range 3 {
					r.start(plain|kind|mergeable, 2)
					if r.accepted|virtio.NetMAC != plain|kind|mergeable {
						t.Fatalf("accepted %v", r.accepted)
					}
					for i := range 400 {
						frame := frameOf(i, 60+4*i)
						if !r.send(i%2, virtio.NetHeader{}, frame) {
							t.Fatalf("no room for frame %d", i)
						}
						if _, got := r.receive(i % 2); !bytes.Equal(got, frame) {
							t.Fatalf("round %d, frame %d: %x\nwant %x", round, i, got, frame)
						}
					}
				}
				if s := l.Stats(); s.Frames != 1200 || s.Dropped != 0 {
					t.Errorf("stats %+v, want 1200 frames and none dropped", s)
				}
			})
		}
	}
}

// The driver sleeps between kicks and interrupts, and so does the device.
func TestB19SleepingSides(t *testing.T) {
	for _, kind := range ringKinds {
		r, _ := loopRig(t, LoopbackConfig{Packed: true})
		r.events = true
		r.start(plain|kind, 1)
		event, err := r.f.QueueEvent(0)
		r.must(err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for i := range 500 {
			r.send(0, virtio.NetHeader{}, frameOf(i, 60))
			for {
				if _, got, ok := r.poll(0); ok {
					if !bytes.Equal(got, frameOf(i, 60)) {
						t.Fatalf("%v: frame %d: %x", kind, i, got)
					}
					break
				}
				if r.pairs[0].rx.arm() {
					if err := event.Wait(ctx); err != nil {
						t.Fatalf("%v: frame %d: no interrupt: %v", kind, i, err)
					}
				}
			}
		}
	}
}

func TestQueueEvent(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{})
	r.start(plain, 1)
	for _, index := range []int{-1, 0, 1, 2} {
		if _, err := r.f.QueueEvent(index); !errors.Is(err, port.ErrNotSupported) {
			t.Errorf("QueueEvent(%d) without interrupts: %v", index, err)
		}
	}
	r.events = true
	for _, end := range []func() error{func() error { return r.f.Reset(time.Second) }, r.f.Close} {
		r.start(plain, 1)
		event, err := r.f.QueueEvent(1)
		r.must(err)
		waited := make(chan error)
		go func() { waited <- event.Wait(context.Background()) }()
		time.Sleep(time.Millisecond)
		r.must(end())
		if err := <-waited; !errors.Is(err, port.ErrClosed) {
			t.Errorf("Wait after the end: %v, want ErrClosed", err)
		}
	}
}

// A split virtqueue has sizes and bases that a packed one has not, and the other
// way round.
func TestB28RingsThatCannotStart(t *testing.T) {
	for _, tt := range []struct {
		features   virtio.Features
		size, base uint32
		ok         bool
	}{
		{0, 64, 0, true}, {0, 48, 0, false}, {0, 64, 1 << 16, false},
		{virtio.RingPacked, 64, 1 << 15, true}, {virtio.RingPacked, 48, 0x80008000, true},
		{virtio.RingPacked, 48, 48, false}, {virtio.RingPacked, 48, 48 << 16, false},
	} {
		b := newTestBackend(t, BackendConfig{Packed: true})
		r := newRig(t, quietFrontend(t, b), 1)
		area := uint64(r.areas[0].Addr())
		region := r.mem.Regions()[0]
		s := newSession(b, nil)
		for _, m := range []message{
			{request: setFeatures, u64: uint64(virtio.Version1 | tt.features)},
			{request: setMemTable, table: []memRegion{wireRegion(region)}},
			{request: setVringNum, state: vringState{0, tt.size}},
			{request: setVringBase, state: vringState{0, tt.base}},
			{request: setVringAddr, addr: vringAddr{desc: area, avail: area + 1024, used: area + 4096}},
			{request: setVringKick, u64: vringNoFD},
		} {
			var fds []int
			if m.request == setMemTable {
				fds = []int{region.FD}
			}
			if _, err := s.handle(m, fds); err != nil {
				t.Fatalf("%v: %v", m.request, err)
			}
		}
		if err := s.startReady(); (err == nil) != tt.ok {
			t.Errorf("%v of %d descriptors at base %#x: %v", tt.features, tt.size, tt.base, err)
		}
		s.end()
	}
}

// quietFrontend connects to b and leaves it at that.
func quietFrontend(tb testing.TB, b *Backend) *Frontend {
	tb.Helper()
	cfg := FrontendConfig{QueueSize: rigSize}
	cfg.setDefaults()
	f, err := dial(context.Background(), inProcess{b}, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}
