package vhost

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"vionet/mbuf"
	"vionet/virtio"
)

// rawPeer connects to a back end without a front end's good manners.
func rawPeer(tb testing.TB, b *Backend) *conn {
	tb.Helper()
	sock, err := b.connect(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { sock.Close() })
	return &conn{sock: sock, timeout: 2 * time.Second}
}

func newTestBackend(tb testing.TB, cfg BackendConfig) *Backend {
	tb.Helper()
	b, err := newBackend(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	b.run()
	tb.Cleanup(func() { b.Close() })
	return b
}

// alive reports whether the back end still answers.
func alive(c *conn) bool {
	if c.send(message{request: getFeatures}) != nil {
		return false
	}
	c.sock.SetReadDeadline(time.Now().Add(2 * time.Second))
	m, _, err := c.receive()
	return err == nil && m.request == getFeatures
}

func TestB28DescriptorsOfMessages(t *testing.T) {
	b := newTestBackend(t, BackendConfig{Timeout: 100 * time.Millisecond})
	u64 := func(r request, v uint64) []byte {
		m := message{request: r, u64: v}
		return m.encode()
	}
	state := func(r request, index, num uint32) []byte {
		m := message{request: r, state: vringState{index, num}}
		return m.encode()
	}
	tests := []struct {
		name  string
		bytes []byte
		fds   int
		legal bool
	}{
		{"kick with one", u64(setVringKick, 0), 1, true},
		{"kick without, as flagged", u64(setVringKick, vringNoFD), 0, true},
		{"call with one", u64(setVringCall, 1), 1, true},
		{"call without, as flagged", u64(setVringCall, vringNoFD|1), 0, true},
		{"error with one", u64(setVringErr, 1), 1, true},
		{"kick with none", u64(setVringKick, 0), 0, false},
		{"kick with one, flagged as none", u64(setVringKick, vringNoFD), 1, false},
		{"kick with two", u64(setVringKick, 0), 2, false},
		{"kick with nine", u64(setVringKick, 0), 9, false},
		{"kick of queue 255", u64(setVringKick, 255), 1, false},
		{"features with one", u64(setFeatures, 0), 1, false},
		{"memory table with one too many", (&message{request: setMemTable}).encode(), 1, false},
		{"unknown message with one", u64(99, 0)[:headerSize], 1, false},
		{"short header", u64(setVringKick, 0)[:7], 1, false},
		{"short body", u64(setVringKick, 0)[:14], 1, false},
		{"size 2^32-1", []byte{12, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255}, 1, false},
		{"size of queue 2", state(setVringNum, 2, 64), 0, false},
		{"size of queue 2^31", state(setVringNum, 1<<31, 64), 0, false},
		{"base of queue 256", state(getVringBase, 256, 0), 0, false},
		{"size 0", state(setVringNum, 0, 0), 0, false},
		{"size 65536", state(setVringNum, 0, 65536), 0, false},
		{"an answer", (&message{request: getFeatures, flags: flagReply}).encode(), 0, false},
		{"features that were not offered", u64(setFeatures, 1<<34), 0, false},
		{"protocol features that were not offered", u64(setProtocolFeatures, 1<<6), 0, false},
	}
	event, err := newEventfd()
	if err != nil {
		t.Fatal(err)
	}
	defer event.close()
	fd := int(event.fd.Load())
	before := countFDs(t)
	for _, tt := range tests {
		rounds := 20
		if strings.HasPrefix(tt.name, "short") {
			rounds = 1 // each takes the time-out
		}
		for range rounds {
			c := rawPeer(t, b)
			fds := bytes.Repeat([]byte{byte(fd)}, tt.fds)
			rights := make([]int, tt.fds)
			for i := range fds {
				rights[i] = fd
			}
			var oob []byte
			if tt.fds > 0 {
				oob = unix.UnixRights(rights...)
			}
			if _, _, err := c.sock.WriteMsgUnix(tt.bytes, oob, nil); err != nil {
				t.Fatal(err)
			}
			if got := alive(c); got != tt.legal {
				t.Errorf("%s: connection alive: %v, want %v", tt.name, got, tt.legal)
			}
			c.sock.Close()
		}
		eventually(t, tt.name+": descriptors closed", func() bool { return countFDs(t) == before })
	}
}

// A kick descriptor that cannot be waited for would hold the back end up.
func TestKickDescriptorMustBePollable(t *testing.T) {
	b := newTestBackend(t, BackendConfig{})
	file := memfd(t, 8)
	fds := countFDs(t)
	c := rawPeer(t, b)
	if err := c.send(message{request: setVringKick}, file); err != nil {
		t.Fatal(err)
	}
	if alive(c) {
		t.Error("a plain file was taken for an eventfd")
	}
	c.sock.Close()
	eventually(t, "descriptors closed", func() bool { return countFDs(t) == fds })
}

// With REPLY_ACK a refusal is an answer, and the connection stands.
func TestRefusalsAreAcknowledged(t *testing.T) {
	b := newTestBackend(t, BackendConfig{Log: logTo(t)})
	c := rawPeer(t, b)
	c.send(message{request: setProtocolFeatures, u64: uint64(protocolReplyAck)})
	for _, tt := range []struct {
		m    message
		want uint64
	}{
		{message{request: setOwner}, 0},
		{message{request: setFeatures, u64: 1 << 34}, 1},
		{message{request: setFeatures, u64: uint64(virtio.Version1)}, 0},
		{message{request: 99}, 1},
		{message{request: setVringEnable, state: vringState{7, 1}}, 1},
	} {
		tt.m.flags = flagNeedReply
		c.send(tt.m)
		m, _, err := c.receive()
		if err != nil || m.request != tt.m.request || m.u64 != tt.want {
			t.Errorf("%v: %+v, %v, want acknowledgement %d", tt.m.request, m, err, tt.want)
		}
	}
}

func memfd(tb testing.TB, size int64) int {
	tb.Helper()
	fd, err := unix.MemfdCreate("vionet-test", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, size)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestGuestMemory(t *testing.T) {
	fd := memfd(t, 4*4096)
	if _, err := unix.Pwrite(fd, []byte("here"), 4096); err != nil {
		t.Fatal(err)
	}
	g, err := mapGuest([]memRegion{
		{guest: 0x1000, size: 4096, user: 0x7000, offset: 4096},
		{guest: 0x2000, size: 8192, user: 0xa000, offset: 8192},
	}, []int{fd, fd})
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := g.slice(0x1000, 4); !ok || string(b) != "here" {
		t.Errorf("slice = %q, %v", b, ok)
	}
	if b, err := g.ringArea(0x7000, 4, mayRead); err != nil || string(b.bytes) != "here" {
		t.Errorf("ringArea = %q, %v", b.bytes, err)
	}
	for _, tt := range []struct {
		addr uint64
		n    int
	}{{0x7000, 4097}, {0x7fff, 2}, {0x6fff, 1}, {0x8000, 1}, {0x6fff, math.MaxInt}, {0x7001, math.MaxInt}, {math.MaxUint64, 1}} {
		if b, err := g.ringArea(tt.addr, tt.n, mayRead); !errors.Is(err, errOutside) {
			t.Errorf("ringArea(%#x, %d) = %d bytes, %v", tt.addr, tt.n, len(b.bytes), err)
		}
	}
	for _, tt := range []struct {
		addr uint64
		n    uint32
		ok   bool
	}{
		{0x1000, 4096, true}, {0x1fff, 1, true}, {0x2000, 8192, true}, {0x3fff, 1, true}, {0x1000, 0, true},
		{0x0fff, 1, false}, {0x0fff, 2, false}, {0x1fff, 2, false}, {0x1000, 4097, false}, {0x4000, 0, false},
		{0x4000, 1, false}, {0x3fff, math.MaxUint32, false}, {math.MaxUint64, 1, false}, {math.MaxUint64, math.MaxUint32, false}, {0, 0, false},
	} {
		if b, ok := g.slice(tt.addr, tt.n); ok != tt.ok || len(b) != int(tt.n) && ok {
			t.Errorf("slice(%#x, %d) = %d bytes, %v, want %v", tt.addr, tt.n, len(b), ok, tt.ok)
		}
	}
	g.unmap()
	g.unmap()
	if _, ok := g.slice(0x1000, 4); ok {
		t.Error("memory is there after unmap")
	}

	huge := memfd(t, 1<<43) // which has no pages
	half := memRegion{size: maxGuestMemory / 2}
	if g, err = mapGuest([]memRegion{half}, []int{huge}); err != nil {
		t.Fatal(err)
	}
	half.guest = 1 << 50
	if _, err := g.with(memRegion{guest: 1 << 50, size: half.size + 1}, huge); err == nil {
		t.Error("more was added than anybody has")
	}
	if more, err := g.with(half, huge); err != nil {
		t.Errorf("all there can be: %v", err)
	} else {
		g = more
	}
	g.unmap()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, tt := range []struct {
		name    string
		regions []memRegion
		fds     []int
	}{
		{"none", nil, nil},
		{"a descriptor too few", []memRegion{{size: 1}}, nil},
		{"empty", []memRegion{{}}, []int{fd}},
		{"past the end of the file", []memRegion{{size: 4096, offset: 4*4096 - 1}}, []int{fd}},
		{"offset wraps", []memRegion{{size: math.MaxUint64, offset: 2}}, []int{fd}},
		{"offset of 63 bits", []memRegion{{size: 1, offset: math.MaxInt64}}, []int{fd}},
		{"device address wraps", []memRegion{{size: 4096, guest: math.MaxUint64 - 1}}, []int{fd}},
		{"user address wraps", []memRegion{{size: 4096, user: math.MaxUint64 - 1}}, []int{fd}},
		{"overlap", []memRegion{{size: 4096}, {size: 4096, guest: 4095}}, []int{fd, fd}},
		{"more than anybody has", []memRegion{{size: maxGuestMemory + 1}}, []int{huge}},
		{"as much, in two", []memRegion{{size: maxGuestMemory / 2}, {guest: 1 << 50, size: maxGuestMemory/2 + 1}}, []int{huge, huge}},
		{"a pipe", []memRegion{{size: 4096}}, []int{int(r.Fd())}},
		{"closed", []memRegion{{size: 4096}}, []int{-1}},
	} {
		if _, err := mapGuest(tt.regions, tt.fds); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
}

func TestListenPath(t *testing.T) {
	path := socketPath(t)
	b, err := Listen(path, BackendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, BackendConfig{}); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), path) {
		t.Errorf("second Listen: %v, want that the path is in use", err)
	}
	b.listener.file = nil // as after a kill
	b.Close()
	b.Close()
	b, err = Listen(path, BackendConfig{})
	if err != nil {
		t.Fatalf("Listen over a dead socket: %v", err)
	}
	b.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, BackendConfig{}); err == nil {
		t.Error("Listen replaced a file")
	}
	if kept, _ := os.ReadFile(path); string(kept) != "mine" {
		t.Error("the file is gone")
	}
	if _, err := Listen(path, BackendConfig{Pairs: 129}); err == nil {
		t.Error("129 pairs")
	}
}

// A driver that breaks a rule stops its queue, and only until it starts anew.
func TestB23BrokenDriver(t *testing.T) {
	b, f := listenAndDial(t, BackendConfig{}, FrontendConfig{QueueSize: rigSize})
	r := newRig(t, f, 1)
	frames := []Frame{{Data: make([]byte, 0, 2048)}}
	for name, send := range map[string]func(){
		"address elsewhere":     func() { r.pairs[0].tx.add(1, 100, 0) },
		"a buffer to write":     func() { r.pairs[0].tx.add(r.areas[0].IOVA, 100, 2) },
		"no more than a header": func() { r.pairs[0].tx.add(r.areas[0].IOVA, 12, 0) },
		"length over the end":   func() { r.pairs[0].tx.add(r.areas[0].IOVA, math.MaxUint32, 0) },
	} {
		r.start(plain, 1)
		send()
		r.kickTx(0)
		if n := b.TxQueue(0).Dequeue(frames); n != 0 {
			t.Errorf("%s: %d frames", name, n)
		}
		if b.TxQueue(0).Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r.start(plain, 1)
	r.send(0, virtio.NetHeader{}, frameOf(1, 99))
	if n := b.TxQueue(0).Dequeue(frames); n != 1 || !bytes.Equal(frames[0].Data, frameOf(1, 99)) {
		t.Errorf("after a restart: %d frames; %v", n, b.TxQueue(0).Err())
	}
	// Receive buffers that are not the driver's to offer.
	r.pairs[0].rx.harvest(r.pairs[0].done[:])
	b.RxQueue(0).Enqueue(make([]Frame, rigSize))
	r.pairs[0].rx.harvest(r.pairs[0].done[:])
	r.pairs[0].rx.add(1, 100, 2)
	r.pairs[0].rx.publish()
	if n := b.RxQueue(0).Enqueue([]Frame{{Data: frameOf(1, 60)}}); n != 0 || b.RxQueue(0).Err() == nil {
		t.Errorf("Enqueue = %d into memory that is not shared; %v", n, b.RxQueue(0).Err())
	}
}

// A table that is sent while rings run: they go on in it, where they were.
func TestMemoryReplacedWhileRunning(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{})
	r.f.peer.protocol &^= protocolMemSlots
	r.start(plain, 1)
	for i := range 50 {
		r.f.mu.Lock()
		r.f.peer.tableSent = false
		r.must(r.f.shareMemory())
		r.f.mu.Unlock()
		frame := frameOf(i, 60)
		r.send(0, virtio.NetHeader{}, frame)
		if _, got := r.receive(0); !bytes.Equal(got, frame) {
			t.Fatalf("round %d: %x", i, got)
		}
	}
	if n := countMappings(t); n != 2 {
		t.Errorf("%d mappings, want 2", n)
	}
}

// Whatever messages come, in whatever order, nothing panics and nothing is
// left open.
func TestB28AnyMessages(t *testing.T) {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 64 << 10, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	shared := mem.Regions()[0]
	known := []request{99}
	for r := range request(64) {
		if _, ok := requests[r]; ok {
			known = append(known, r)
		}
	}
	fds, mappings := countFDs(t), countMappings(t)
	rapid.Check(t, func(t *rapid.T) {
		b, _ := newBackend(BackendConfig{Packed: true, IOMMU: true})
		ours, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		defer theirs.Close()
		go drain(theirs)
		s := newSession(b, &conn{sock: ours, timeout: time.Second})
		small := rapid.Uint64Range(0, 3)
		addr := rapid.Custom(func(t *rapid.T) uint64 {
			return uint64(shared.Addr()) + rapid.Uint64Range(0, 20).Draw(t, "page")*4096
		})
		for range rapid.IntRange(1, 60).Draw(t, "messages") {
			m := message{
				request: rapid.SampledFrom(known).Draw(t, "request"),
				u64: rapid.OneOf(small, rapid.Just(uint64(virtio.Version1)), rapid.Just(uint64(virtio.Version1|virtio.RingPacked|virtio.EventIdx)),
					rapid.Just(uint64(virtio.Version1|virtio.VhostLogAll)), rapid.Just(uint64(virtio.Version1|virtio.AccessPlatform)), rapid.Just(uint64(0x0f)), rapid.Just(vringNoFD|1)).Draw(t, "number"),
				state: vringState{uint32(small.Draw(t, "index")), uint32(rapid.SampledFrom([]int{0, 1, 48, 64, 1 << 15, 0x80028002, 65536}).Draw(t, "num"))},
				addr: vringAddr{index: uint32(small.Draw(t, "queue")), flags: uint32(small.Draw(t, "flags")), log: addr.Draw(t, "log"), desc: addr.Draw(t, "desc"),
					avail: addr.Draw(t, "avail"), used: addr.Draw(t, "used")},
			}
			m.config = configSpace{uint32(rapid.SampledFrom([]int{0, 1, 6, 12, 1<<32 - 1}).Draw(t, "offset")), 0, make([]byte, rapid.IntRange(0, 20).Draw(t, "bytes"))}
			m.log = logArea{4 * small.Draw(t, "log size"), 4 * small.Draw(t, "log offset")}
			m.iotlb = iotlbMessage{addr.Draw(t, "iova"), 4096 * small.Draw(t, "translated"), addr.Draw(t, "user"), access(small.Draw(t, "access")), uint8(small.Draw(t, "kind"))}
			m.inflight = inflightArea{4096 * small.Draw(t, "inflight"), small.Draw(t, "at"), uint16(small.Draw(t, "queues")), uint16(rapid.SampledFrom([]int{0, 1, 48, 64, 65535}).Draw(t, "size"))}
			if m.request == setMemTable || m.request == addMemReg || m.request == remMemReg {
				m.table = []memRegion{{guest: shared.IOVA, user: uint64(shared.Addr()), size: 4096 * rapid.Uint64Range(0, 17).Draw(t, "pages")}}
			}
			_, most := expectedFDs(m)
			passed := make([]int, most)
			for i := range passed {
				switch m.request {
				case setMemTable, addMemReg, setInflightFD, setLogBase:
					passed[i], _ = unix.Dup(shared.FD)
				default:
					passed[i], _ = unix.Eventfd(0, unix.EFD_CLOEXEC)
				}
			}
			if a, _ := s.handle(m, passed); a != nil {
				closeFDs(a.fds)
			}
			closeFDs(passed)
			s.startReady()
			b.TxQueue(0).Dequeue(make([]Frame, 1))
			b.RxQueue(0).Enqueue(make([]Frame, 1))
		}
		s.end()
	})
	eventually(t, "descriptors closed", func() bool { return countFDs(t) == fds })
	if n := countMappings(t); n != mappings {
		t.Errorf("%d mappings are left", n-mappings)
	}
}

// A descriptor's mode is shared with the front end, which can make reading it
// block. That must not hold up the end of its connection.
func TestKickDescriptorThatBlocks(t *testing.T) {
	b := newTestBackend(t, BackendConfig{})
	kick, err := newEventfd()
	if err != nil {
		t.Fatal(err)
	}
	defer kick.close()
	fd := int(kick.fd.Load())
	g := newRawGuest(t, rawPeer(t, b), bare)
	g.tell(message{request: setVringKick}, fd)
	if !alive(g.conn) {
		t.Fatal("an eventfd was refused")
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		kick.signal()
		eventually(t, "the kick", func() bool {
			select {
			case <-b.Kicked():
				return true
			default:
				return false
			}
		})
	}
	g.conn.sock.Close()
	checkServed(t, b, g.features)
}

// Whoever interrupts the driver must not wait for it.
func TestCallDescriptorMustBeEventfd(t *testing.T) {
	b := newTestBackend(t, BackendConfig{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fds := countFDs(t)
	c := rawPeer(t, b)
	if err := c.send(message{request: setVringCall}, int(w.Fd())); err != nil {
		t.Fatal(err)
	}
	if alive(c) {
		t.Error("a pipe was taken for an eventfd")
	}
	c.sock.Close()
	eventually(t, "descriptors closed", func() bool { return countFDs(t) == fds })
}

// The same of the descriptor that calls the driver, whose counter is full.
func TestCallDescriptorThatBlocks(t *testing.T) {
	var log safeBuffer
	b := newTestBackend(t, BackendConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
	call, err := newEventfd()
	if err != nil {
		t.Fatal(err)
	}
	defer call.close()
	fd := int(call.fd.Load())
	g := newRawGuest(t, rawPeer(t, b), bare)
	g.share()
	g.start()
	g.tell(message{request: setVringCall, u64: 1}, fd)
	if !alive(g.conn) {
		t.Fatal("an eventfd was refused")
	}
	unix.Write(fd, []byte("\xfe\xff\xff\xff\xff\xff\xff\xff"))
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	g.send(rawBuffers, frameOf(1, 100))
	g.rings[1].arm() // it wants to be called
	var burst sync.WaitGroup
	burst.Go(func() { b.TxQueue(0).Dequeue([]Frame{{Data: make([]byte, 0, 100)}}) })
	eventually(t, "the reason in the log", func() bool {
		return strings.Contains(log.String(), "queue 1: the descriptor that calls the driver blocks")
	})
	burst.Wait()
	checkServed(t, b, bare)
}
