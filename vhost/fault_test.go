package vhost

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// A buffer that ends behind the file once that is cut off at spoiledSize.
const (
	spoiledBuffer = rawBuffers + 4096 - 100
	spoiledSize   = rawBuffers + 4096
	spoiledFrame  = 3000
)

// checkServed says that the back end serves a front end from its first message
// to a frame there and back.
func checkServed(t testing.TB, b *Backend, features virtio.Features) {
	t.Helper()
	g := newRawGuest(t, rawPeer(t, b), features)
	g.share()
	g.start()
	g.exchange(b, 3)
	g.conn.sock.Close()
	eventually(t, "an end", func() bool { return !b.RxQueue(0).Running() })
}

// A front end shortens the file of its memory under everything that the back end
// does there. That ends its connection, for a reason that is told, and nothing
// else.
func TestMemoryShortened(t *testing.T) {
	pool := newPool(t)
	conf := port.Config{Pool: pool, TxOffloads: port.TxTCPTSO | port.TxTCPCksum}
	frame := func() []Frame { return []Frame{{Data: make([]byte, spoiledFrame)}} }
	receive := func(b *Backend) int {
		rx := &portRx{dev: b.TxQueue(0), backend: b}
		rx.start(&conf, nil)
		defer rx.release()
		return rx.Burst(make([]*mbuf.Buf, 4))
	}
	sendPacket := func(b *Backend, packet *mbuf.Buf) int {
		tx := &portTx{dev: b.RxQueue(0)}
		tx.start(&conf)
		defer tx.release()
		bufs := []*mbuf.Buf{packet}
		n := tx.Burst(bufs)
		for _, left := range bufs[n:] {
			left.Free()
		}
		return n
	}
	send := func(b *Backend) int { return sendPacket(b, packetOf(t, pool, make([]byte, spoiledFrame), 1500)) }
	cut := func(b *Backend) int { return sendPacket(b, tcpPacket(t, pool)) }
	bounce := func(b *Backend) int {
		p := loopPair{rx: b.RxQueue(0), tx: b.TxQueue(0)}
		p.bounce()
		return 0
	}
	for _, tt := range []struct {
		name string
		size int64
		work func(b *Backend) int
	}{
		{"Dequeue from a buffer", spoiledSize, func(b *Backend) int { return b.TxQueue(0).Dequeue(frame()) }},
		{"Dequeue from a ring", 0, func(b *Backend) int { return b.TxQueue(0).Dequeue(frame()) }},
		{"Enqueue to a buffer", spoiledSize, func(b *Backend) int { return b.RxQueue(0).Enqueue(frame()) }},
		{"Enqueue to a ring", 0, func(b *Backend) int { return b.RxQueue(0).Enqueue(frame()) }},
		{"Enqueue, with the used ring gone", rawUsed, func(b *Backend) int { return b.RxQueue(0).Enqueue(frame()) }},
		{"Pending", 0, func(b *Backend) int { return b.TxQueue(0).Pending() }},
		{"SetNotify", 0, func(b *Backend) int {
			b.TxQueue(0).SetNotify(false)
			b.TxQueue(0).SetNotify(true)
			return 0
		}},
		{"port receives from a buffer", spoiledSize, receive},
		{"port receives from a ring", 0, receive},
		{"port sends to a buffer", spoiledSize, send},
		{"port sends to a ring", 0, send},
		{"port sends the segments of a packet to a buffer", spoiledSize, cut},
		{"loopback between buffers", spoiledSize, bounce},
		{"loopback between rings", 0, bounce},
	} {
		for _, kind := range []virtio.Features{0, virtio.RingPacked} {
			if tt.size == rawUsed && kind != 0 {
				continue // a packed ring has no used ring
			}
			t.Run(fmt.Sprintf("%s, %v", tt.name, kind), func(t *testing.T) {
				var log safeBuffer
				b := newTestBackend(t, BackendConfig{Packed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
				g := newRawGuest(t, rawPeer(t, b), bare|kind)
				g.share()
				g.start()
				for range 4 { // as many as the segments of a packet take
					g.offer(spoiledBuffer+2*spoiledFrame, 2*spoiledFrame)
				}
				g.send(spoiledBuffer, make([]byte, spoiledFrame))
				g.shorten(tt.size)
				if n := tt.work(b); n != 0 {
					t.Errorf("%d frames came of memory that is gone", n)
				}
				eventually(t, "the reason in the log", func() bool {
					return strings.Contains(log.String(), "memory region at device address 0x1000000 is gone")
				})
				eventually(t, "both queues stopped", func() bool { return !b.RxQueue(0).Running() && !b.TxQueue(0).Running() })
				checkWhole(t, pool)
				checkServed(t, b, g.features)
			})
		}
	}
}

// Chains are completed when a queue that lends its frames stops, in memory that
// may be gone.
func TestMemoryShortenedWhileFramesAreLent(t *testing.T) {
	pool := newPool(t)
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		var log safeBuffer
		b := newTestBackend(t, BackendConfig{Packed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		b.TxQueue(0).lends = lendAny
		g := newRawGuest(t, rawPeer(t, b), bare|kind)
		g.share()
		g.start()
		g.send(rawBuffers, make([]byte, 1000))
		rx := &portRx{dev: b.TxQueue(0), backend: b}
		rx.start(&port.Config{Pool: pool}, nil)
		lent := receive(t, rx)
		if !lent.Lent() {
			t.Fatal("the frame was copied")
		}
		g.shorten(0)
		lent.Free()
		g.conn.sock.Close()
		eventually(t, "the queue stopped", func() bool { return !b.TxQueue(0).Running() })
		rx.release()
		checkWhole(t, pool)
		b.TxQueue(0).lends = lendNone
		checkServed(t, b, g.features)
	}
}

// A frame is copied, and then there is nowhere left to say so: it is nobody's.
func TestMemoryShortenedBetweenCopyAndCompletion(t *testing.T) {
	for _, features := range []virtio.Features{bare, bare | virtio.NetCSUM} { // plain frames, and such as may ask for something
		t.Run(fmt.Sprint(features), func(t *testing.T) {
			r := newPortRig(t, PortConfig{}, port.Config{}) // which misses no buffer at its end
			g := newRawGuest(t, rawPeer(t, r.port.(*vhostPort).backend), features)
			g.careless = true
			g.share()
			g.start()
			g.send(rawRing1+rawUsed-4096, frameOf(1, 100))
			g.shorten(rawRing1 + rawUsed)
			if n := r.port.RxQueue(0).Burst(make([]*mbuf.Buf, 4)); n != 0 {
				t.Errorf("%d frames were received", n)
			}
		})
	}
}

// The session's own goroutine looks at the memory too, when it starts rings.
func TestMemoryShortenedBeforeRingsStart(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		var log safeBuffer
		b := newTestBackend(t, BackendConfig{Packed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		g := newRawGuest(t, rawPeer(t, b), bare|kind)
		g.share()
		if !alive(g.conn) {
			t.Fatal("not connected")
		}
		g.place()
		g.shorten(0)
		g.tell(message{request: setVringKick, u64: vringNoFD | 1})
		eventually(t, "the reason in the log", func() bool { return strings.Contains(log.String(), "is gone while it is in use") })
		checkServed(t, b, g.features)
	}
}

// Notes about rings lie in a file of their own.
func TestInflightMemoryShortened(t *testing.T) {
	for _, when := range []string{"before the rings start", "while they run"} {
		t.Run(when, func(t *testing.T) {
			var log safeBuffer
			b := newTestBackend(t, BackendConfig{Packed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
			g := newRawGuest(t, rawPeer(t, b), bare|virtio.RingPacked)
			g.share()
			size := 2 * inflightStride(rigSize)
			notes := memfd(t, int64(size))
			g.tell(message{request: setInflightFD, inflight: inflightArea{size: uint64(size), queues: 2, queueSize: rigSize}}, notes)
			if !alive(g.conn) {
				t.Fatal("not connected")
			}
			if when == "while they run" {
				g.start()
				g.send(rawBuffers, frameOf(1, 100))
			}
			if err := unix.Ftruncate(notes, 0); err != nil {
				t.Fatal(err)
			}
			if when == "while they run" {
				b.TxQueue(0).Dequeue([]Frame{{Data: make([]byte, 0, 100)}})
			} else {
				g.careless = true
				g.place()
				g.kick()
			}
			eventually(t, "the reason in the log", func() bool { return strings.Contains(log.String(), "the inflight memory is gone") })
			checkServed(t, b, g.features)
		})
	}
}

// The device's own goroutine polls while the file is shortened.
func TestMemoryShortenedUnderTraffic(t *testing.T) {
	for _, kind := range []virtio.Features{0, virtio.RingPacked} {
		l := newLoop(t, LoopbackConfig{Packed: true})
		for round := range 20 {
			g := newRawGuest(t, rawPeer(t, l.backend), bare|kind)
			g.share()
			g.place()
			for i := range rigSize {
				g.offer(rawBuffers+i*4096, 2048)
				g.send(rawBuffers+i*4096+2048, frameOf(i, 200))
			}
			g.kick()
			g.shorten(int64(round * 4096))
			g.conn.sock.Close()
		}
		g := newRawGuest(t, rawPeer(t, l.backend), bare|kind)
		g.share()
		g.place()
		g.offer(rawBuffers, 2048)
		g.send(rawBuffers+4096, frameOf(5, 100))
		g.kick()
		eventually(t, "a frame of the last front end", func() bool {
			frame, ok := g.receive()
			return ok && bytes.Equal(frame, frameOf(5, 100))
		})
		l.Close()
	}
}

// Other panics are no business of the front end's, and faults elsewhere are not.
func TestOtherPanicsGoOn(t *testing.T) {
	elsewhere, err := unix.Mmap(memfd(t, 0), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(elsewhere)
	b := newTestBackend(t, BackendConfig{})
	g := newRawGuest(t, rawPeer(t, b), bare)
	g.share()
	for name, fail := range map[string]func(){
		"a panic":           func() { panic("mine") },
		"a fault elsewhere": func() { _ = bytes.Clone(elsewhere) },
	} {
		g.start()
		q := b.TxQueue(0)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was swallowed", name)
				}
			}()
			defer q.leave(q.enter())
			fail()
		}()
		if !q.mu.TryLock() {
			t.Fatalf("%s left the queue locked", name)
		}
		q.mu.Unlock()
		if !alive(g.conn) {
			t.Errorf("%s was blamed on the front end", name)
		}
		for i := range g.rings {
			g.stopRing(i)
		}
	}
}

func TestGuardDoesNotAllocate(t *testing.T) {
	q := newQueue(0, slog.New(slog.DiscardHandler))
	if n := testing.AllocsPerRun(100, func() { burst(q) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func burst(q *Queue) {
	defer q.leave(q.enter())
	q.reported = false
}

// What it costs that a burst survives its front end's memory, beside the lock.
func BenchmarkGuard(b *testing.B) {
	q := newQueue(0, slog.New(slog.DiscardHandler))
	b.Run("lock", func(b *testing.B) {
		for b.Loop() {
			func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.reported = false
			}()
		}
	})
	b.Run("guard", func(b *testing.B) {
		for b.Loop() {
			burst(q)
		}
	})
}
