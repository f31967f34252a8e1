package vhost

import (
	"slices"
	"time"

	"vionet/mbuf"
)

// maxMemSlots is the number of memory regions that a front end can add one by
// one.
const maxMemSlots = 64

// handleMemory does what m says about the front end's memory. Rings that run
// are held for the time, and go on where they were; see startReady.
func (s *session) handleMemory(m message, fds []int) (err error) {
	var mem *guestMemory
	switch m.request {
	case setMemTable:
		mem, err = mapGuest(m.table, fds)
	case addMemReg:
		if s.mem.has(m.table[0]) {
			return nil // QEMU 7.2 adds it once for each pair of queues
		}
		mem, err = s.mem.with(m.table[0], fds[0])
	case remMemReg:
		mem, err = s.mem.without(m.table[0])
	}
	if err != nil {
		return err
	}
	for i := range s.rings {
		s.rings[i].pause()
	}
	mem.iotlb = s.iotlb
	s.giveUp(mem)
	return nil
}

// giveUp takes mem in place of the memory so far, and unmaps what is not part of
// it, or has that done when frames in it are no longer in use.
func (s *session) giveUp(mem *guestMemory) {
	var late []*mbuf.Lender
	for i := range s.rings {
		r := &s.rings[i]
		r.lenders = slices.DeleteFunc(r.lenders, func(l *mbuf.Lender) bool { return l.Out() == 0 })
		late = append(late, r.lenders...)
	}
	gone := s.mem.mappingsBeside(mem)
	s.mem, mem.lost = mem, s.lostMemory
	if len(late) == 0 {
		unmapAll(gone)
		return
	}
	s.backend.workers.Go(func() { s.backend.unmapLater(gone, late) })
}

// unmapLater unmaps memory when the lenders have all their frames back. Those
// that are not back soon after Close are somebody's for good, and so is the
// memory.
func (b *Backend) unmapLater(gone [][]byte, late []*mbuf.Lender) {
	out := func(l *mbuf.Lender) bool { return l.Out() > 0 }
	for slices.ContainsFunc(late, out) {
		select {
		case <-time.After(drainTime / 100):
		case <-b.stop:
			if time.Sleep(drainTime); slices.ContainsFunc(late, out) {
				b.cfg.Log.Error("vhost: memory of a front end stays mapped: frames in it were never freed")
				return
			}
		}
	}
	unmapAll(gone)
}
