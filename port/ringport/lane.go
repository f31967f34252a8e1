package ringport

import (
	"sync/atomic"

	"vionet/mbuf"
)

// lane is a ring of packets with one producer, a transmit queue, and one
// consumer, a receive queue. Positions run freely and wrap around; their
// difference is the number of packets inside. Each side writes its own
// position alone, once a burst, and remembers the other's, so that it reads
// that one only when the lane looks full or empty.
type lane struct {
	slots []*mbuf.Buf // a power of two of them
	mask  uint32

	_        [64]byte // the sides share no cache line
	tail     atomic.Uint32
	seenHead uint32 // the producer's

	_        [64]byte
	head     atomic.Uint32
	seenTail uint32 // the consumer's
	_        [64]byte
}

func newLane(size int) *lane {
	return &lane{slots: make([]*mbuf.Buf, size), mask: uint32(size - 1)}
}

// room is the number of packets that fit in behind tail, at least want if
// there are that many. The producer calls it.
func (l *lane) room(tail uint32, want int) int {
	size := len(l.slots)
	if free := size - int(tail-l.seenHead); free >= want {
		return free
	}
	l.seenHead = l.head.Load()
	return size - int(tail-l.seenHead)
}

// take moves packets from the lane into bufs and returns how many. The
// consumer calls it.
func (l *lane) take(bufs []*mbuf.Buf) int {
	head := l.head.Load()
	if int(l.seenTail-head) < len(bufs) {
		l.seenTail = l.tail.Load()
	}
	n := min(int(l.seenTail-head), len(bufs))
	if n == 0 {
		return 0
	}
	for i := range bufs[:n] {
		bufs[i] = l.slots[(head+uint32(i))&l.mask]
	}
	l.head.Store(head + uint32(n))
	return n
}

// empty reports whether no packet is inside.
func (l *lane) empty() bool { return l.tail.Load() == l.head.Load() }

// drain frees the packets that are inside now. The consumer calls it, while
// the producer may add more: those stay.
func (l *lane) drain() {
	var one [1]*mbuf.Buf
	for range l.tail.Load() - l.head.Load() {
		if l.take(one[:]) == 1 {
			one[0].Free()
		}
	}
}
