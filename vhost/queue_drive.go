package vhost

import "vionet/ring"

// Drive lets f work on the ring of the queue, for a device that does something
// else with buffers than this package does: it finds where they are, and nothing
// more. It is false, without a call, when no front end has the ring enabled. What
// f completes is shown to the driver, and the driver interrupted if it wants
// that. The queue is locked meanwhile: f must not wait, and keeps nothing. A queue
// that is driven is used in no other way.
func (q *Queue) Drive(f func(ring.Device)) (driven bool) {
	defer q.leave(q.enter())
	if q.ring == nil {
		return false
	}
	f(q.ring)
	q.flush()
	return true
}

// Reach gives the n bytes at a device address of the front end's memory, or nil
// when they are not all in one piece of it. It is for f of Drive. What f writes there
// is not noted for a guest that moves.
func (q *Queue) Reach(addr uint64, n uint32) []byte {
	b, _ := q.slice(addr, n)
	return b
}
