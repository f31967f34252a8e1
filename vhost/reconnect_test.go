package vhost

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/virtio"
)

// mortal is a loopback device that dies and comes back, for a front end that
// connects to it or that it connects to.
type mortal struct {
	tb     testing.TB
	path   string
	server bool // the front end is
	cfg    LoopbackConfig
	alive  *Loopback
}

// newMortal gives a rig on its front end, too.
func newMortal(tb testing.TB, server bool, cfg LoopbackConfig) (*mortal, *rig) {
	tb.Helper()
	m := &mortal{tb: tb, path: socketPath(tb), server: server, cfg: cfg}
	pairs := max(cfg.Pairs, 1)
	fc := FrontendConfig{Queues: pairs, QueueSize: rigSize, Server: server, ConnectTimeout: 20 * time.Second, Log: logTo(tb)}
	var born sync.WaitGroup
	if server {
		born.Go(m.live) // while the front end waits
	} else {
		m.live()
	}
	f, err := Dial(m.path, fc)
	born.Wait()
	if err != nil {
		tb.Fatal(err)
	}
	f.pause = time.Millisecond
	tb.Cleanup(func() { m.alive.Close() })
	return m, newRig(tb, f, pairs)
}

// live starts the device.
func (m *mortal) live() {
	cfg := m.cfg
	if !m.server {
		cfg.Path = m.path
	}
	l, err := StartLoopback(cfg)
	if err != nil {
		m.tb.Error(err)
		return
	}
	m.alive = l
	if !m.server {
		return
	}
	for range 1000 { // it may not listen yet
		sock, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: m.path, Net: "unix"})
		if err == nil {
			l.backend.conns <- sock
			return
		}
		time.Sleep(time.Millisecond)
	}
	m.tb.Error("nobody listens on " + m.path)
}

// die ends the device. It may have taken buffers that it will never give back.
func (m *mortal) die(dirty bool) {
	if dirty {
		close(m.alive.stop)
		m.alive.worker.Wait()
		for _, q := range m.alive.backend.queues {
			q.mu.Lock()
			if q.ring != nil {
				q.ring.Take(q.chains[:3], q.pieces[:])
			}
			q.mu.Unlock()
		}
		m.alive.backend.Close()
		m.alive.stopOnce.Do(func() {})
		return
	}
	m.alive.Close()
}

// The back end dies 100 times under traffic. Every frame comes back, once and
// in order, also those that were sent while it was away.
func TestB29BackendDies(t *testing.T) {
	for _, tt := range []struct {
		name     string
		features virtio.Features
		pairs    int
		events   bool
		server   bool
	}{
		{"split", 0, 1, false, false},
		{"split, the front end listens", 0, 1, false, true},
		{"split, 2 pairs, interrupts", virtio.NetMrgRxbuf, 2, true, false},
		{"split, events, in order", virtio.EventIdx | virtio.InOrder, 1, true, true},
		{"packed", virtio.RingPacked, 1, false, false},
		{"packed, 2 pairs, interrupts", virtio.RingPacked | virtio.NetMrgRxbuf, 2, true, true},
		{"packed, events, in order", virtio.RingPacked | virtio.EventIdx | virtio.InOrder, 1, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, r := newMortal(t, tt.server, LoopbackConfig{Pairs: tt.pairs, Packed: true})
			var events sync.Map
			r.f.Watch(func() {
				var b [2]byte
				r.f.ReadConfig(virtio.ConfigStatus, b[:])
				events.Store(b[0], true)
			})
			r.events = tt.events
			if tt.features.Has(virtio.RingPacked) {
				r.size = 57
			}
			r.start(plain|tt.features, tt.pairs)
			fds := 0
			sent, got := make([]int, tt.pairs), make([]int, tt.pairs)
			send := func(n int) {
				for i := range n {
					pair := i % tt.pairs
					if r.send(pair, virtio.NetHeader{}, frameOf(sent[pair], 80)) {
						sent[pair]++
					}
				}
			}
			for death := range 100 {
				send(1 + death%17)
				m.die(death%3 == 0)
				if death%5 == 0 {
					send(5)
				}
				m.live()
				for pair := range sent {
					for got[pair] < sent[pair] {
						_, frame := r.wake(pair)
						if !bytes.Equal(frame, frameOf(got[pair], 80)) {
							t.Fatalf("death %d, pair %d: %x\nwant frame %d", death, pair, frame, got[pair])
						}
						got[pair]++
					}
				}
				if death == 10 {
					fds = countFDs(t)
				}
			}
			eventually(t, "descriptors of dead connections closed", func() bool { return countFDs(t) <= fds })
			for _, up := range []byte{0, 1} {
				if _, told := events.Load(up); !told {
					t.Errorf("the driver was never told of a link that is %d", up)
				}
			}
			r.must(r.f.Close())
		})
	}
}

// wake waits for a frame, asleep where the rig asks for interrupts.
func (r *rig) wake(pair int) (virtio.NetHeader, []byte) {
	r.tb.Helper()
	if !r.events {
		return r.receive(pair)
	}
	event, err := r.f.QueueEvent(virtio.RxQueue(pair))
	r.must(err)
	ctx, cancel := context.WithTimeout(r.tb.Context(), 20*time.Second)
	defer cancel()
	for {
		if h, frame, ok := r.poll(pair); ok {
			return h, frame
		}
		if r.pairs[pair].rx.arm() {
			if err := event.Wait(ctx); err != nil {
				r.tb.Fatalf("pair %d is not woken: %v", pair, err)
			}
		}
	}
}

// Packed virtqueues and a back end that keeps no notes: the device says that it
// needs a reset, once for each death, and works after it.
func TestB29PackedWithoutNotes(t *testing.T) {
	m, r := newMortal(t, false, LoopbackConfig{Packed: true, withhold: protocolInflight})
	told := make(chan struct{}, 1)
	r.f.Watch(func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	link := func() byte {
		var b [2]byte
		r.must(r.f.ReadConfig(virtio.ConfigStatus, b[:]))
		return b[0]
	}
	for death := range 30 {
		r.start(plain|virtio.RingPacked, 1)
		if link() != 1 {
			t.Fatalf("death %d: the link is down after a start", death)
		}
		for i := range 20 {
			r.send(0, virtio.NetHeader{}, frameOf(i, 80))
			if _, frame := r.receive(0); !bytes.Equal(frame, frameOf(i, 80)) {
				t.Fatalf("death %d, frame %d: %x", death, i, frame)
			}
		}
		r.send(0, virtio.NetHeader{}, frameOf(99, 80))
		m.die(death%2 == 0)
		m.live()
		limit := time.After(20 * time.Second)
		for {
			if status, err := r.f.Status(); err == nil && status.Has(virtio.StatusNeedsReset) {
				break
			}
			select {
			case <-told:
			case <-limit:
				t.Fatalf("death %d: the driver was not told that the device needs a reset", death)
			}
		}
		if link() != 0 {
			t.Errorf("death %d: the link is up before the reset", death)
		}
		if err := r.f.EnablePairs(1); err == nil {
			t.Errorf("death %d: queues were enabled before the reset", death)
		}
	}
}

// A back end that comes back with less is refused, by name, and waited for.
func TestB29FewerFeatures(t *testing.T) {
	m, r := newMortal(t, false, LoopbackConfig{})
	var log safeBuffer
	r.f.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.start(plain|virtio.NetMrgRxbuf|virtio.NetCSUM|virtio.NetHostTSO4, 1)
	m.die(false)
	m.cfg.Mask = virtio.NetCSUM | virtio.NetMrgRxbuf
	m.live()
	eventually(t, "the missing features in the log", func() bool { return strings.Contains(log.String(), "lacks CSUM MRG_RXBUF,") })
	for range 20 {
		var b [2]byte
		if r.f.ReadConfig(virtio.ConfigStatus, b[:]); b[0] != 0 {
			t.Fatal("the link is up")
		}
		time.Sleep(time.Millisecond)
	}
	if n := strings.Count(log.String(), "lacks CSUM"); n != 1 {
		t.Errorf("said %d times", n)
	}
	r.send(0, virtio.NetHeader{}, frameOf(1, 80))
	m.die(false)
	m.cfg.Mask = 0
	m.live()
	if _, frame := r.receive(0); !bytes.Equal(frame, frameOf(1, 80)) {
		t.Errorf("got %x", frame)
	}
	// A port that is stopped takes what there is.
	m.die(false)
	r.must(r.f.Reset(time.Second))
	m.cfg.Mask = virtio.NetMrgRxbuf
	m.live()
	eventually(t, "the connection", func() bool { _, err := r.f.Features(); return err == nil })
	r.start(plain|virtio.NetMrgRxbuf, 1)
	if r.accepted.Has(virtio.NetMrgRxbuf) {
		t.Error("the front end still offers what the back end lacks")
	}
}

// A new back end ends, or goes silent, at every step of taking over in turn; the
// one after it works.
func TestB29BackendEndsWhileTakingOver(t *testing.T) {
	features := virtio.Version1 | virtio.VhostUserProtocolFeatures | virtio.NetMQ
	m, r := newMortal(t, false, LoopbackConfig{})
	r.f.cfg.Timeout = 40 * time.Millisecond
	r.start(plain, 1)
	for step := 1; step < 24; step++ {
		m.die(true)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		sock, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		s := scriptedOn(sock, features, protocolReplyAck|protocolStatus)
		s.failAt, s.failSilent = step, step%2 == 0
		l.Close()
		go s.run()
		select {
		case <-s.done: // one of the two has had enough
		case <-time.After(200 * time.Millisecond): // it has taken over
		}
		sock.Close()
		<-s.done
		m.live()
		r.send(0, virtio.NetHeader{}, frameOf(step, 80))
		if _, frame := r.receive(0); !bytes.Equal(frame, frameOf(step, 80)) {
			t.Fatalf("step %d: %x", step, frame)
		}
	}
}

// What a new back end is told, in order.
func TestB29MessagesToTheNextBackEnd(t *testing.T) {
	features := virtio.Version1 | virtio.VhostUserProtocolFeatures | virtio.NetMQ
	m, r := newMortal(t, false, LoopbackConfig{Pairs: 2})
	r.start(plain, 1)
	for i := range 5 {
		r.send(0, virtio.NetHeader{}, frameOf(i, 80))
		r.receive(0)
	}
	m.alive.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sock, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	s := scriptedOn(sock, features, protocolReplyAck|protocolStatus|protocolMQ)
	go s.run()
	eventually(t, "the back end being told everything", func() bool { _, err := r.f.Status(); return err == nil })
	r.f.Status()
	want := []string{
		"SET_OWNER", "GET_FEATURES", "GET_PROTOCOL_FEATURES", "SET_PROTOCOL_FEATURES 0x10009", "GET_QUEUE_NUM",
		"SET_VRING_CALL 0x0", "SET_VRING_CALL 0x1", "SET_VRING_CALL 0x2", "SET_VRING_CALL 0x3",
		"SET_FEATURES 0x140400000", "SET_STATUS 0xb", "SET_MEM_TABLE 1",
		"SET_VRING_NUM 0 64", "SET_VRING_BASE 0 5", "SET_VRING_ADDR 0", "SET_VRING_KICK 0x0",
		"SET_VRING_NUM 1 64", "SET_VRING_BASE 1 5", "SET_VRING_ADDR 1", "SET_VRING_KICK 0x1",
		"SET_VRING_NUM 2 64", "SET_VRING_BASE 2 0", "SET_VRING_ADDR 2", "SET_VRING_KICK 0x2",
		"SET_VRING_NUM 3 64", "SET_VRING_BASE 3 0", "SET_VRING_ADDR 3", "SET_VRING_KICK 0x3",
		"SET_VRING_ENABLE 0 1", "SET_VRING_ENABLE 1 1", "SET_STATUS 0xf",
	}
	if diff := cmp.Diff(want, s.trace()[:len(want)]); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	r.must(r.f.Close())
	<-s.done
	sock.Close()
}

// Close in the middle of all this is at once, and leaves nothing behind.
func TestCloseWithoutBackEnd(t *testing.T) {
	for _, server := range []bool{false, true} {
		m, r := newMortal(t, server, LoopbackConfig{})
		r.start(plain, 1)
		m.die(false)
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		r.must(r.f.Close())
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("server=%v: Close took %v", server, took)
		}
		if _, err := net.Dial("unix", m.path); err == nil {
			t.Errorf("server=%v: somebody still listens", server)
		}
	}
}

// The front end listens: nobody comes, two come, somebody listens there already.
func TestServer(t *testing.T) {
	path := socketPath(t)
	fds := countFDs(t)
	cfg := FrontendConfig{Name: "net_virtio_user7", Server: true, ConnectTimeout: 20 * time.Millisecond}
	_, err := Dial(path, cfg)
	if !errors.Is(err, context.DeadlineExceeded) && (err == nil || !strings.Contains(err.Error(), "waited for 20ms")) {
		t.Errorf("error %v, want one with the time-out", err)
	}
	for _, part := range []string{path, "net_virtio_user7", "client=1"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	taken, err := Listen(path, BackendConfig{})
	if err != nil {
		t.Fatalf("the socket was left behind: %v", err)
	}
	if _, err := Dial(path, cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v, want that the path is in use", err)
	}
	taken.listener.SetUnlinkOnClose(false) // as after a kill
	taken.Close()
	if n := countFDs(t); n != fds {
		t.Errorf("%d descriptors open, %d before", n, fds)
	}
	m := &mortal{tb: t, path: path, server: true}
	go func() {
		for range 1000 {
			if c, err := net.Dial("unix", path); err == nil {
				c.Close() // it only looks
				break
			}
			time.Sleep(time.Millisecond)
		}
	}()
	cfg.ConnectTimeout, cfg.QueueSize = 20*time.Second, rigSize
	if _, err := Dial(path, cfg); !errors.Is(err, ErrDisconnected) {
		t.Errorf("a back end that only looks: %v", err)
	}
	var born sync.WaitGroup
	born.Go(m.live)
	f, err := Dial(path, cfg)
	born.Wait()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { m.alive.Close() }()
	r := newRig(t, f, 1)
	r.start(plain, 1)
	r.send(0, virtio.NetHeader{}, frameOf(3, 80))
	if _, frame := r.receive(0); !bytes.Equal(frame, frameOf(3, 80)) {
		t.Errorf("got %x", frame)
	}
}

// safeBuffer is a buffer for a logger.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
