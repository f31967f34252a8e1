package vhost

import (
	"time"

	"vionet/mbuf"
	"vionet/ring"
)

// lendMin is the length in bytes of the shortest frame that is lent instead of
// copied: below it, a copy costs less than the way of a lent buffer there and
// back.
const lendMin = 256

// drainTime is how long a ring that stops waits for frames that are lent.
const drainTime = 500 * time.Millisecond

// lendPolicy says of what memory frames may be lent.
type lendPolicy int

const (
	lendNone   lendPolicy = iota
	lendSealed            // that the driver cannot take away
	lendAny
)

// mayLend reports whether the queue, which starts, is to lend frames. Whoever
// holds one reads it where nothing guards against memory that is gone.
func (q *Queue) mayLend() bool {
	if q.lends == lendSealed && !q.mem.sealed() {
		q.log.Warn("vhost: frames are copied, since the guest could take its memory away while they are in use: share it sealed, "+
			"as memory-backend-memfd does, or trust the guest with dequeue-zero-copy=2", "queue", q.index)
		return false
	}
	return q.lends != lendNone
}

// lending is dequeue zero copy on a transmit queue: frames stay in the driver's
// memory, and their chains are completed when whoever got them has freed them.
//
// Chains are completed in the order in which they were taken, whatever the
// order in which frames come back, and whatever the ring would allow: so the
// used ring says all there is to know to the back end that comes after this one
// (see the package comment). A frame that is kept for long holds up those
// behind it; no more than half of a ring is ever lent, and beyond that frames
// are copied.
type lending struct {
	lender *mbuf.Lender
	limit  int

	// chains is a circle of those taken and not completed, in order: count of
	// them, from position first.
	chains       []lentChain
	first, count int
	tokens       [queueBurst]uint32
}

type lentChain struct {
	head uint16
	lent bool // its frame is not back
}

func newLending(size int) *lending {
	limit := max(size/2, 1)
	return &lending{lender: mbuf.NewLender(limit), limit: limit, chains: make([]lentChain, size)}
}

func (l *lending) place(i int) int { return (l.first + i) % len(l.chains) }

// note remembers a chain, whose frame is lent or copied.
func (l *lending) note(head uint16, lent bool) {
	l.chains[l.place(l.count)] = lentChain{head, lent}
	l.count++
}

// lend makes a packet of a frame without copying it, or nil when it must be
// copied: a frame that is short, in several pieces, or asks for something, and
// any frame when half of the ring is out. The queue lends frames.
func (q *Queue) lend(f *takenFrame) *mbuf.Buf {
	l := q.lending
	if f.size < lendMin || f.last-f.first != 1 || f.header.Flags|f.header.GSOType != 0 || l.count >= l.limit {
		return nil
	}
	b := l.lender.Lend(q.src[f.first], uint32(l.place(l.count)))
	if b != nil {
		l.note(f.head, true)
	}
	return b
}

// noteCopied notes a frame that was copied, where others are lent.
func (q *Queue) noteCopied(f *takenFrame) {
	if q.lending != nil {
		q.lending.note(f.head, false)
	}
}

// release completes frames of which there are packets now, but for those that
// are lent, and those behind them.
func (q *Queue) release(frames []takenFrame) {
	if q.lending == nil {
		q.giveBack(frames)
	} else {
		q.settle()
	}
}

// settle gives back what is no longer lent, as far as all before it is back.
// The caller flushes.
func (l *lending) settle(r ring.Device, done []ring.Completion) []ring.Completion {
	for {
		n := l.lender.TakeBack(l.tokens[:])
		if n == 0 {
			break
		}
		for _, token := range l.tokens[:n] {
			l.chains[token].lent = false
		}
	}
	done = done[:0]
	for l.count > 0 && !l.chains[l.first].lent {
		done = append(done, ring.Completion{Head: l.chains[l.first].head})
		l.first, l.count = l.place(1), l.count-1
	}
	r.Complete(done)
	return done
}

// settle completes the chains whose frames are back, if the queue lends any, and
// shows that to the driver.
func (q *Queue) settle() {
	if q.ring == nil || q.lending == nil || q.lending.count == 0 {
		return
	}
	if q.done = q.lending.settle(q.ring, q.done); len(q.done) > 0 {
		q.flush()
	}
}

// settleIdle is settle for a time without bursts.
func (q *Queue) settleIdle() {
	defer q.leave(q.enter())
	q.settle()
}

// Lent is the number of frames in the driver's memory that are in use.
func (q *Queue) Lent() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lending == nil {
		return 0
	}
	return q.lending.lender.Out()
}

// drain waits, for drainTime, until all lent frames are back, and takes no new
// ones meanwhile. The chains of those that are still out are completed: their
// holders read memory that the driver may use again. Then it returns their
// lender.
func (q *Queue) drain() (late *mbuf.Lender) {
	deadline := time.Now().Add(drainTime)
	defer q.leave(q.enter())
	l := q.lending
	if l == nil {
		return nil
	}
	q.draining = true
	defer func() { q.lending, q.draining = nil, false }()
	for l.lender.Out() > 0 && time.Now().Before(deadline) {
		q.mu.Unlock()
		time.Sleep(drainTime / 1000)
		q.mu.Lock()
	}
	if out := l.lender.Out(); out > 0 {
		late = l.lender
		q.log.Warn("vhost: the queue stops while frames in its memory are still in use", "queue", q.index, "frames", out)
		for i := range l.chains {
			l.chains[i].lent = false
		}
	}
	q.settle()
	return late
}
