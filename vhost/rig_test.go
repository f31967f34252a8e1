package vhost

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(deviceProcess); path != "" {
		beDevice(path)
	}
	goleak.VerifyTestMain(m)
}

// logTo gives a logger that writes to the test's output.
func logTo(tb testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// countFDs is the number of open descriptors of this process.
func countFDs(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// countMappings is the number of this process's mappings of memory files.
func countMappings(tb testing.TB) int {
	tb.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.Count(maps, []byte("/memfd:vionet"))
}

// eventually waits until ok is true.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			tb.Fatalf("waited in vain: %s", what)
		}
	}
}

func socketPath(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "vhost")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// rig is a small driver: it brings a front end up and moves frames by hand.
type rig struct {
	tb       testing.TB
	f        *Frontend
	mem      *mbuf.Memory
	accepted virtio.Features
	header   int
	size     int  // descriptors of a queue, up to rigSize
	events   bool // ask for interrupts
	pairs    []rigPair
	areas    []mbuf.Zone
}

type rigPair struct {
	rx, tx         rigRing
	rxKick, txKick port.Kicker
	rxBufs, txBufs [rigSize]mbuf.Zone // by head
	done           [rigSize]rawDone
}

const (
	rigSize    = 64
	rigBufSize = 2048
)

// newRig takes over f and closes it at the end of the test.
func newRig(tb testing.TB, f *Frontend, pairs int) *rig {
	tb.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: true})
	if err != nil {
		tb.Fatal(err)
	}
	return newRigOn(tb, f, pairs, mem)
}

// newRigOn takes over mem as well.
func newRigOn(tb testing.TB, f *Frontend, pairs int, mem *mbuf.Memory) *rig {
	tb.Helper()
	tb.Cleanup(func() {
		f.Close()
		mem.Close()
	})
	r := &rig{tb: tb, f: f, mem: mem, size: rigSize, pairs: make([]rigPair, pairs)}
	if err := f.Map(mem); err != nil {
		tb.Fatal(err)
	}
	for i := range r.pairs {
		for j := range rigSize {
			r.pairs[i].rxBufs[j] = r.alloc(rigBufSize)
			r.pairs[i].txBufs[j] = r.alloc(rigBufSize)
		}
	}
	for range 2 * pairs {
		l, _ := ring.NewSplitLayout(rigSize)
		r.areas = append(r.areas, r.alloc(l.Total))
	}
	return r
}

func (r *rig) alloc(n int) mbuf.Zone {
	r.tb.Helper()
	z, err := r.mem.Alloc(n, 4096)
	if err != nil {
		r.tb.Fatal(err)
	}
	return z
}

func (r *rig) must(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

// negotiate resets the device and settles the features; want is narrowed to
// what is offered.
func (r *rig) negotiate(want virtio.Features) (virtio.Status, error) {
	f := r.f
	if err := f.Reset(5 * time.Second); err != nil {
		return 0, err
	}
	status := virtio.StatusAcknowledge | virtio.StatusDriver
	if err := f.SetStatus(status); err != nil {
		return 0, err
	}
	offered, err := f.Features()
	if err != nil {
		return 0, err
	}
	r.accepted = want & offered
	r.header = virtio.HeaderSize(r.accepted)
	if err := f.SetFeatures(r.accepted); err != nil {
		return 0, err
	}
	if err := f.SetStatus(status | virtio.StatusFeaturesOK); err != nil {
		return 0, err
	}
	return f.Status()
}

// start brings the device up to DRIVER_OK, with enabled pairs.
func (r *rig) start(want virtio.Features, enabled int) {
	r.tb.Helper()
	r.must(r.tryStart(want, enabled))
}

func (r *rig) tryStart(want virtio.Features, enabled int) error {
	status, err := r.negotiate(want)
	if err != nil {
		return err
	}
	if !status.Has(virtio.StatusFeaturesOK) {
		return fmt.Errorf("status %v, want FEATURES_OK", status)
	}
	for i := range r.pairs {
		for _, index := range []int{virtio.RxQueue(i), virtio.TxQueue(i)} {
			clear(r.areas[index].Bytes)
			if err := r.setup(index, 0); err != nil {
				return err
			}
		}
		r.refill(i, rigSize)
	}
	if err := r.f.SetStatus(status | virtio.StatusDriverOK); err != nil {
		return err
	}
	return r.f.EnablePairs(enabled)
}

// setup tells the device about a ring. With a base the ring goes on as it is;
// without one it is new.
func (r *rig) setup(index int, base uint16) error {
	z := r.areas[index]
	q := port.QueueSetup{Index: index, Size: r.size, Base: base, Interrupt: r.events}
	if r.accepted.Has(virtio.RingPacked) {
		l, _ := ring.NewPackedLayout(r.size)
		q.Desc, q.Avail, q.Used = z.Slice(0, l.DescLen()), z.Slice(l.DriverOff, ring.EventLen), z.Slice(l.DeviceOff, ring.EventLen)
	} else {
		l, _ := ring.NewSplitLayout(r.size)
		q.Desc, q.Avail, q.Used = z.Slice(0, l.DescLen()), z.Slice(l.AvailOff, l.AvailLen), z.Slice(l.UsedOff, l.UsedLen)
	}
	p := &r.pairs[index/2]
	side, kick := &p.rx, &p.rxKick
	if index%2 == 1 {
		side, kick = &p.tx, &p.txKick
	}
	var err error
	if base == 0 {
		if *side, err = newRigRing(q, r.accepted); err != nil {
			return err
		}
	}
	*kick, err = r.f.SetupQueue(q)
	return err
}

// refill offers up to n receive buffers.
func (r *rig) refill(pair, n int) {
	p := &r.pairs[pair]
	if n = min(n, p.rx.room()); n == 0 {
		return
	}
	for ; n > 0; n-- {
		p.rx.add(p.rxBufs[p.rx.nextHead()].IOVA, rigBufSize, ring.DescWrite)
	}
	if p.rx.publish() {
		p.rxKick.Kick(0)
	}
}

// send transmits one frame in one buffer; false: no room.
func (r *rig) send(pair int, h virtio.NetHeader, frame []byte) bool {
	p := &r.pairs[pair]
	if p.tx.room() == 0 {
		p.tx.harvest(p.done[:])
	}
	if p.tx.room() == 0 {
		return false
	}
	z := p.txBufs[p.tx.nextHead()]
	h.Encode(z.Bytes[:r.header])
	n := copy(z.Bytes[r.header:], frame)
	p.tx.add(z.IOVA, uint32(r.header+n), 0)
	r.kickTx(pair)
	return true
}

func (r *rig) kickTx(pair int) {
	p := &r.pairs[pair]
	if p.tx.publish() {
		p.txKick.Kick(0)
	}
}

// receive waits for one frame.
func (r *rig) receive(pair int) (virtio.NetHeader, []byte) {
	r.tb.Helper()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Microsecond) {
		if h, frame, ok := r.poll(pair); ok {
			return h, frame
		}
	}
	r.tb.Fatalf("no frame on pair %d within 20 s", pair)
	return virtio.NetHeader{}, nil
}

// poll takes one frame, spread over buffers or not, if there is one.
func (r *rig) poll(pair int) (virtio.NetHeader, []byte, bool) {
	r.tb.Helper()
	p := &r.pairs[pair]
	if p.rx.harvest(p.done[:1]) == 0 {
		return virtio.NetHeader{}, nil, false
	}
	first := p.rxBufs[p.done[0].head].Bytes[:p.done[0].len]
	h := virtio.DecodeNetHeader(first[:r.header])
	frame := bytes.Clone(first[r.header:])
	// Without mergeable buffers some devices leave the field as it was.
	for i := 1; i < int(h.NumBuffers) && r.accepted.Has(virtio.NetMrgRxbuf); i++ {
		if p.rx.harvest(p.done[:1]) == 0 {
			r.tb.Fatalf("buffer %d of %d of a frame is missing", i, h.NumBuffers)
		}
		frame = append(frame, p.rxBufs[p.done[0].head].Bytes[:p.done[0].len]...)
	}
	r.refill(pair, rigSize)
	return h, frame, true
}

// frameOf makes a frame of n bytes that carries number i.
func frameOf(i, n int) []byte {
	b := make([]byte, n)
	copy(b, fmt.Sprintf("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x88\xb5%08d", i))
	for j := 22; j < n; j++ {
		b[j] = byte(i + j)
	}
	return b
}

// scripted is a back end that answers as a table says and keeps what it was
// sent.
type scripted struct {
	conn    *conn
	answers map[request]func(message) message
	// At message failAt, counted from 1, the connection ends, or the back end
	// goes on without answering.
	failAt     int
	failSilent bool

	mu   sync.Mutex
	seen []message
	done chan struct{}
}

// newScripted gives a front end's end of the connection too.
func newScripted(tb testing.TB, features virtio.Features, protocol protocolFeatures) (*scripted, *net.UnixConn) {
	tb.Helper()
	ours, theirs, err := socketPair()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { ours.Close(); theirs.Close() })
	return scriptedOn(ours, features, protocol), theirs
}

func scriptedOn(sock *net.UnixConn, features virtio.Features, protocol protocolFeatures) *scripted {
	u64 := func(v uint64) func(message) message {
		return func(message) message { return message{u64: v} }
	}
	var status uint64
	return &scripted{
		conn: &conn{sock: sock, timeout: 5 * time.Second},
		done: make(chan struct{}),
		answers: map[request]func(message) message{
			getFeatures:         u64(uint64(features)),
			getProtocolFeatures: u64(uint64(protocol)),
			getQueueNum:         u64(2),
			getVringBase:        func(m message) message { return message{state: m.state} },
			setStatus:           func(m message) message { status = m.u64; return message{} },
			getStatus:           func(message) message { return message{u64: status} },
		},
	}
}

// run serves until the connection ends.
func (s *scripted) run() {
	defer close(s.done)
	for n := 1; ; n++ {
		m, fds, err := s.conn.receive()
		if err != nil {
			return
		}
		closeFDs(fds)
		s.mu.Lock()
		s.seen = append(s.seen, m)
		s.mu.Unlock()
		if n == s.failAt && !s.failSilent {
			s.conn.sock.Close()
			return
		}
		if n == s.failAt {
			continue
		}
		answer := message{}
		s.mu.Lock()
		make, ok := s.answers[m.request]
		if ok {
			answer = make(m)
		}
		s.mu.Unlock()
		if !ok && m.flags&flagNeedReply == 0 || m.request == setStatus && m.flags&flagNeedReply == 0 {
			continue
		}
		answer.request, answer.flags = m.request, flagReply
		s.conn.send(answer)
	}
}

// trace gives what was sent since the last call, as a person would write it.
func (s *scripted) trace() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, m := range s.seen {
		line := m.request.String()
		switch m.body() {
		case payloadU64:
			line += fmt.Sprintf(" %#x", m.u64)
		case payloadState:
			line += fmt.Sprintf(" %d %d", m.state.index, m.state.num)
		case payloadAddr:
			line += fmt.Sprintf(" %d", m.addr.index)
		case payloadTable, payloadRegion:
			line += fmt.Sprintf(" %d", len(m.table))
		}
		lines = append(lines, line)
	}
	s.seen = nil
	return lines
}

// drain reads a connection to its end.
func drain(c *net.UnixConn) { io.Copy(io.Discard, c) }
