package vhost

import (
	"fmt"
	"runtime/debug"

	"vionet/mbuf"
)

// A front end can take pages away from under a mapping: it shortens the file of
// its memory, or the file has no more pages to give. The next access is a fault
// (SIGBUS), which kills a Go program unless the goroutine has asked for a panic
// instead. Whoever touches the front end's memory does so between enter and
// leave, or under session.guard, and such a fault ends the one connection that
// it belongs to.

// enter takes the queue's lock for a burst, and makes faults of this goroutine
// panics. Its result is leave's argument; the two stand in one line:
//
//	defer q.leave(q.enter())
func (q *Queue) enter() (before bool) {
	q.mu.Lock()
	return debug.SetPanicOnFault(true)
}

// leave ends a burst. After a fault in the front end's memory the queue is
// stopped and the burst returns what its named results hold; any other panic
// goes on.
func (q *Queue) leave(before bool) {
	debug.SetPanicOnFault(before)
	if cause := recover(); cause != nil {
		q.abandon(cause)
	}
	q.mu.Unlock()
}

// abandon stops the queue whose burst ended in a panic.
func (q *Queue) abandon(cause any) {
	mem := q.mem
	q.ring, q.mem, q.region = nil, nil, nil
	if mem == nil || mem.lost == nil || !mem.lost(cause) {
		q.mu.Unlock()
		panic(cause)
	}
}

// guard ends work on the session's own goroutine that touches the front end's
// memory, as leave ends a burst; err says what happened. It is deferred:
//
//	defer s.guard(debug.SetPanicOnFault(true), &err)
func (s *session) guard(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if cause := recover(); cause != nil {
		if !s.lostMemory(cause) {
			panic(cause)
		}
		*err = *s.cause.Load()
	}
}

// lostMemory ends the session when cause is a fault in its front end's memory,
// and reports whether it is one. It is called from the session's goroutine, or
// from one that holds the lock of a queue that works on that memory: so long,
// the memory stays what it is.
func (s *session) lostMemory(cause any) bool {
	fault, ok := cause.(interface{ Addr() uintptr })
	if !ok {
		return false
	}
	what := ""
	for i := range s.mem.regions {
		if r := &s.mem.regions[i]; lies(fault.Addr(), r.mapping) {
			what = fmt.Sprintf("memory region at device address %#x", r.guest)
		}
	}
	if s.inflight != nil && lies(fault.Addr(), s.inflight.region.mapping) {
		what = "inflight memory"
	}
	if s.log != nil && lies(fault.Addr(), s.log.mapping) {
		what = "log of dirty pages"
	}
	if what == "" {
		return false
	}
	s.cut(fmt.Errorf("the %s is gone while it is in use: its file was shortened, or has no pages left", what))
	return true
}

// cut ends the session from any goroutine; the first cause is kept.
func (s *session) cut(cause error) {
	if s.cause.CompareAndSwap(nil, &cause) {
		s.conn.sock.CloseRead()
	}
}

// lies reports whether an address of this process is in the mapping.
func lies(addr uintptr, mapping []byte) bool {
	return addr-(mbuf.Region{Bytes: mapping}).Addr() < uintptr(len(mapping))
}
