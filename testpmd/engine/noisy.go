package engine

import (
	"time"

	"vionet/mbuf"
)

// Noise is what mode noisy does beside forwarding, as a busy network function
// would.
type Noise struct {
	// Hold is the number of packets that wait in a queue in front of the
	// transmit queue; 0: none do.
	Hold int
	// Flush is how long packets wait at most while nothing new pushes them
	// out; 0: for ever.
	Flush time.Duration
	// Memory is the size in bytes of the memory that is read and written for
	// each packet, so many times; there is none if it is 0.
	Memory                    int
	Reads, Writes, ReadWrites int
}

// Noisy forwards packets as they are, through a queue, after accesses to
// memory: see Noise.
var Noisy = &Engine{Name: "noisy", Forward: forwardNoisy}

func forwardNoisy(s *Stream) int {
	pkts := s.settle(s.receive())
	if s.noise == nil {
		if len(pkts) > 0 {
			s.send(pkts)
		}
		return len(pkts)
	}
	s.noise.disturb(&s.dice, len(pkts))
	sent := 0
	if len(pkts) > 0 {
		sent = s.throughFIFO(pkts)
	}
	if sent == 0 {
		sent = s.flushFIFO()
	}
	return len(pkts) + sent
}

// throughFIFO puts pkts behind those that wait, sends as many from the front
// as there are too many, and returns their number.
func (s *Stream) throughFIFO(pkts []*mbuf.Buf) int {
	n := s.noise
	if len(n.ring) == 0 {
		s.send(pkts)
		return len(pkts)
	}
	sent := 0
	for len(pkts) > 0 {
		room := min(len(n.ring)-n.count, len(pkts))
		n.put(pkts[:room])
		pkts = pkts[room:]
		if len(pkts) > 0 {
			out := n.take(n.out[:min(len(pkts), len(n.out))])
			s.send(out)
			sent += len(out)
		}
	}
	if sent > 0 {
		n.moved = time.Now()
	}
	return sent
}

// flushFIFO sends all that waits when it has waited long enough.
func (s *Stream) flushFIFO() int {
	n := s.noise
	if n.flush == 0 || n.count == 0 {
		return 0
	}
	now := time.Now()
	if n.moved.IsZero() {
		n.moved = now
	}
	if now.Sub(n.moved) < n.flush {
		return 0
	}
	sent := n.count
	for n.count > 0 {
		s.send(n.take(n.out))
	}
	n.moved = now
	return sent
}

// noise is the state of mode noisy: packets that wait, in a ring, and memory.
type noise struct {
	ring         []*mbuf.Buf
	first, count int
	out          []*mbuf.Buf // on their way from the ring
	flush        time.Duration
	moved        time.Time // when packets left the ring last

	memory                    []byte
	reads, writes, readWrites int
	read                      byte // the sum of what was read, so that it is read
}

// cacheLine is the distance in bytes of two places in memory that do not come
// together.
const cacheLine = 64

func newNoise(cfg StreamConfig) *noise {
	want := cfg.Noise
	if want == (Noise{}) {
		return nil
	}
	return &noise{
		ring: make([]*mbuf.Buf, want.Hold), out: make([]*mbuf.Buf, cfg.Burst), flush: want.Flush,
		memory: make([]byte, want.Memory), reads: want.Reads, writes: want.Writes, readWrites: want.ReadWrites,
	}
}

// disturb reads and writes memory at random for so many packets.
func (n *noise) disturb(d *dice, packets int) {
	lines := uint64(len(n.memory) / cacheLine)
	if lines == 0 {
		return
	}
	place := func() *byte { return &n.memory[d.roll(lines)*cacheLine] }
	for range packets {
		for range n.writes {
			*place() = byte(*d)
		}
		for range n.reads {
			n.read += *place()
		}
		for range n.readWrites {
			n.read += *place()
			*place() = byte(*d)
		}
	}
}

// put appends packets, for which there must be room.
func (n *noise) put(pkts []*mbuf.Buf) {
	for _, b := range pkts {
		n.ring[(n.first+n.count)%len(n.ring)] = b
		n.count++
	}
}

// take moves packets from the front into dst and returns them.
func (n *noise) take(dst []*mbuf.Buf) []*mbuf.Buf {
	if n == nil {
		return nil
	}
	dst = dst[:min(len(dst), n.count)]
	for i := range dst {
		dst[i] = n.ring[n.first]
		n.ring[n.first] = nil
		n.first = (n.first + 1) % len(n.ring)
	}
	n.count -= len(dst)
	return dst
}
