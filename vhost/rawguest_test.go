package vhost

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// rawGuest is a front end of one queue pair that is made of messages only, with
// all its memory in one file, which a test can spoil as it likes.
type rawGuest struct {
	tb       testing.TB
	conn     *conn
	features virtio.Features
	file     int
	mem      []byte
	rings    [2]rigRing
	received [rigSize]int // where the receive buffers are, by head
	careless bool         // the back end may have ended the connection
}

// Where things are in the file, in bytes, and where the file is in the address
// spaces of the device and of the front end's process.
const (
	rawMemory  = 1 << 20
	rawRing1   = 0x8000 // of the transmit queue; that of the receive queue is at 0
	rawAvail   = 0x2000 // behind the start of a ring
	rawUsed    = 0x4000
	rawBuffers = 0x10000

	rawDeviceBase = 0x1000000
	rawUserBase   = 0x7f0000000000
)

// bare are the features of a front end that wants no more than frames.
const bare = virtio.Version1 | virtio.NetStatus

// newRawGuest says nothing to the back end yet.
func newRawGuest(tb testing.TB, c *conn, features virtio.Features) *rawGuest {
	tb.Helper()
	g := &rawGuest{tb: tb, conn: c, features: features, file: memfd(tb, rawMemory)}
	var err error
	if g.mem, err = unix.Mmap(g.file, 0, rawMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Munmap(g.mem) })
	return g
}

// share tells the back end of features and memory.
func (g *rawGuest) share() {
	g.tb.Helper()
	g.tell(message{request: setFeatures, u64: uint64(g.features)})
	g.tell(message{request: setMemTable, table: []memRegion{{guest: rawDeviceBase, user: rawUserBase, size: rawMemory}}}, g.file)
}

// start starts both rings afresh, and returns when they run.
func (g *rawGuest) start() {
	g.tb.Helper()
	g.place()
	g.kick()
	if !alive(g.conn) {
		g.tb.Error("the back end has ended the connection")
	}
}

// place says where both rings are, which are fresh.
func (g *rawGuest) place() {
	g.tb.Helper()
	for i := range g.rings {
		g.placeRing(i)
	}
}

// kick starts the rings.
func (g *rawGuest) kick() {
	g.tb.Helper()
	for i := range g.rings {
		g.tell(message{request: setVringKick, u64: vringNoFD | uint64(i)})
	}
}

func (g *rawGuest) placeRing(i int) {
	g.tb.Helper()
	g.freshRing(i)
	base := uint32(0)
	if g.features.Has(virtio.RingPacked) {
		base = ring.FreshPacked
	}
	g.describe(i, base)
}

// freshRing makes ring i anew, and tells nobody.
func (g *rawGuest) freshRing(i int) {
	g.tb.Helper()
	at := i * rawRing1
	clear(g.mem[at:][:rawRing1])
	q := port.QueueSetup{
		Index: i, Size: rigSize,
		Desc: g.zone(at, rawAvail), Avail: g.zone(at+rawAvail, rawUsed-rawAvail), Used: g.zone(at+rawUsed, rawRing1-rawUsed),
	}
	var err error
	if g.rings[i], err = newRigRing(q, g.features); err != nil {
		g.tb.Fatal(err)
	}
}

// describe tells the back end of ring i, which goes on at base.
func (g *rawGuest) describe(i int, base uint32) {
	g.tb.Helper()
	index, user := uint32(i), uint64(rawUserBase+i*rawRing1)
	g.tell(message{request: setVringNum, state: vringState{index, rigSize}})
	g.tell(message{request: setVringBase, state: vringState{index, base}})
	g.tell(message{request: setVringAddr, addr: vringAddr{index: index, desc: user, avail: user + rawAvail, used: user + rawUsed}})
}

// stopRing stops ring i and gives its base.
func (g *rawGuest) stopRing(i int) uint32 {
	g.tb.Helper()
	g.tell(message{request: getVringBase, state: vringState{index: uint32(i)}})
	m, _, err := g.conn.receive()
	if err != nil {
		g.tb.Fatal(err)
	}
	return m.state.num
}

func (g *rawGuest) tell(m message, fds ...int) {
	g.tb.Helper()
	if err := g.conn.send(m, fds...); err != nil && !g.careless {
		g.tb.Fatal(err)
	}
}

func (g *rawGuest) zone(off, n int) mbuf.Zone {
	return mbuf.Zone{Bytes: g.mem[off:][:n], IOVA: rawDeviceBase + uint64(off)}
}

// offer makes the n bytes at off a receive buffer.
func (g *rawGuest) offer(off, n int) {
	r := g.rings[virtio.RxQueue(0)]
	g.received[r.nextHead()] = off
	r.add(rawDeviceBase+uint64(off), uint32(n), ring.DescWrite)
	r.publish()
}

// send puts a frame behind an empty header at off, and transmits it.
func (g *rawGuest) send(off int, frame []byte) {
	r := g.rings[virtio.TxQueue(0)]
	n := virtio.HeaderSize(g.features)
	clear(g.mem[off:][:n])
	n += copy(g.mem[off+n:], frame)
	r.add(rawDeviceBase+uint64(off), uint32(n), 0)
	r.publish()
}

// receive takes one frame, if there is one.
func (g *rawGuest) receive() ([]byte, bool) {
	var done [1]rawDone
	if g.rings[virtio.RxQueue(0)].harvest(done[:]) == 0 {
		return nil, false
	}
	return g.mem[g.received[done[0].head]:][virtio.HeaderSize(g.features):done[0].len], true
}

// shorten cuts the file off. The guest can't touch what is behind its end any
// more than the back end.
func (g *rawGuest) shorten(size int64) {
	g.tb.Helper()
	if err := unix.Ftruncate(g.file, size); err != nil {
		g.tb.Fatal(err)
	}
}

// exchange sends frame i, which comes back as a loopback device would have it.
func (g *rawGuest) exchange(b *Backend, i int) {
	g.tb.Helper()
	g.offer(rawBuffers, 2048)
	g.send(rawBuffers+2048, frameOf(i, 100))
	frames := []Frame{{Data: make([]byte, 0, 2048)}}
	if n := b.RxQueue(0).Enqueue(frames[:b.TxQueue(0).Dequeue(frames)]); n != 1 {
		g.tb.Fatalf("frame %d: %d went through; %v, %v", i, n, b.TxQueue(0).Err(), b.RxQueue(0).Err())
	}
	if frame, ok := g.receive(); !ok || !bytes.Equal(frame, frameOf(i, 100)) {
		g.tb.Fatalf("frame %d came back as %x", i, frame)
	}
	var done [2]rawDone
	if n := g.rings[virtio.TxQueue(0)].harvest(done[:]); n != 1 {
		g.tb.Fatalf("frame %d: %d buffers were used", i, n)
	}
}
