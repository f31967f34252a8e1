package vhost

import (
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"vionet/virtio"
)

// dirtyPage is the number of bytes that a bit of a dirtyLog stands for.
const dirtyPage = 4096

// dirtyLog is the map, shared with the front end, of the pages that the back end
// has written to. The front end copies them, as long as there are any, to where
// the guest is going to live. Bit n stands for the page at the guest-physical
// address 4096*n; the front end clears those that it has seen.
type dirtyLog struct {
	words   []uint32
	mapping []byte
}

// mapDirtyLog maps a log; fd stays the caller's.
func mapDirtyLog(a logArea, fd int) (*dirtyLog, error) {
	if a.size%4 != 0 || a.offset%4 != 0 {
		return nil, fmt.Errorf("a log of %d bytes at offset %d: both must be multiples of 4", a.size, a.offset)
	}
	r, err := mapRegion(memRegion{size: a.size, offset: a.offset}, fd)
	if err != nil {
		return nil, fmt.Errorf("the log of dirty pages: %w", err)
	}
	return &dirtyLog{words: logWords(r.bytes), mapping: r.mapping}, nil
}

// unmap gives the mapping back. A call on nil does nothing.
func (l *dirtyLog) unmap() {
	if l != nil {
		unix.Munmap(l.mapping)
	}
}

// mark notes that the n bytes at a guest-physical address were written, for any
// number of goroutines; what lies behind the end of the log is not noted. A call
// on nil does nothing.
func (l *dirtyLog) mark(addr uint64, n int) {
	if l == nil || n <= 0 || len(l.words) == 0 {
		return
	}
	last := addr + uint64(n-1)
	if last < addr {
		last = math.MaxUint64
	}
	end := min(last/dirtyPage, 32*uint64(len(l.words))-1)
	for page := addr / dirtyPage; page <= end; page++ {
		// Also where the bit is set: this is the fence between the page and
		// the bit, which the front end may be about to clear.
		atomic.OrUint32(&l.words[page/32], 1<<(page%32))
	}
}

// dirtyRange is a range of addresses: guest-physical, or the device's.
type dirtyRange struct {
	addr uint64
	n    int
}

// setLogBase takes another log into use and gives the one before it back; fd
// stays the caller's.
func (s *session) setLogBase(a logArea, fd int) (*answer, error) {
	log, err := mapDirtyLog(a, fd)
	if err != nil {
		return nil, err
	}
	old := s.log
	s.log = log
	s.shareLog()
	old.unmap()
	return number(0), nil
}

// shareLog tells the queues at work where to note what they write.
func (s *session) shareLog() {
	for i := range s.rings {
		if r := &s.rings[i]; r.device != nil {
			r.queue.setDirty(s.logOf(r))
		}
	}
}

// logOf says where a ring that was started notes what it writes, if it does,
// and which of its areas it writes to: a packed virtqueue is completed in its
// descriptors.
func (s *session) logOf(r *backendRing) (log *dirtyLog, areas []dirtyRange) {
	if !s.features.Has(virtio.VhostLogAll) {
		return nil, nil
	}
	if r.addr.flags&vringLog == 0 {
		return s.log, nil
	}
	desc, device := &r.areas[0], &r.areas[2]
	addr := r.addr.log
	if s.iotlb != nil {
		addr = device.guest // the front end has given the device's address
	}
	areas = []dirtyRange{{addr, len(device.bytes)}}
	if s.features.Has(virtio.RingPacked) {
		areas = append(areas, dirtyRange{desc.guest, len(desc.bytes)})
	}
	return s.log, areas
}

// setDirty says where the queue notes what it writes to the driver's memory,
// nil for nowhere, and which areas of its ring those are.
func (q *Queue) setDirty(log *dirtyLog, areas []dirtyRange) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dirty, q.areas = log, areas
}

// markWritten notes what the burst has written to the driver's buffers.
func (q *Queue) markWritten() {
	for _, w := range q.writes {
		q.mem.mark(q.dirty, w.addr, w.n)
	}
	q.writes = q.writes[:0]
}

// markUsed notes the areas of the ring as written.
func (q *Queue) markUsed() {
	for _, a := range q.areas {
		q.dirty.mark(a.addr, a.n)
	}
}

// mark notes the n bytes at a device address in log.
func (g *guestMemory) mark(log *dirtyLog, addr uint64, n int) {
	for n > 0 {
		r, off, run, err := g.locate(addr, uint64(n), 0)
		if err != nil {
			return // it could not be written either
		}
		log.mark(r.guest+off, int(run))
		addr += run
		n -= int(run)
	}
}
