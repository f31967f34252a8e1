package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"vionet/ring"
)

// The inflight memory is the back end's notebook, which the front end keeps for
// the next back end when this one dies. It has a part for each queue, laid out
// as the vhost-user specification says: a header, and an entry for every
// descriptor. The back end here completes buffers in order. All it has to note is
// where in a packed virtqueue the next used descriptor goes, and those that it is
// about to write; what follows there was taken or not, and is served again. A
// split virtqueue shows as much by its used index. The version of the header is
// this package's own, so that no other back end misreads it.
const (
	inflightHeader  = 32 // bytes
	inflightEntry   = 32 // bytes, of a packed virtqueue
	inflightAlign   = 64
	inflightVersion = 0x5601

	// Offsets in the header.
	inflightVersionAt = 8
	inflightSizeAt    = 10 // descriptors
	inflightBurstAt   = 12 // entries that a flush under way writes; 0: there is none
	inflightUsedAt    = 16 // offset of the next used descriptor, after the flush
	inflightOldUsedAt = 18 // the same before it
	inflightWrapAt    = 20 // the wrap counters that belong to them
	inflightOldWrapAt = 21

	// Offsets in an entry.
	entryOffsetAt = 2
	entryIDAt     = 16
	entryFlagsAt  = 18
	entryLenAt    = 20

	inflightMaxQueues = 2 * maxPairs
)

// inflightStride is the size of a queue's part.
func inflightStride(queueSize int) int {
	n := inflightHeader + inflightEntry*queueSize
	return (n + inflightAlign - 1) / inflightAlign * inflightAlign
}

func checkInflight(a inflightArea) error {
	if a.queues < 1 || a.queues > inflightMaxQueues || a.queueSize < 1 || a.queueSize > ring.MaxSize {
		return fmt.Errorf("inflight memory for %d queues of %d descriptors", a.queues, a.queueSize)
	}
	return nil
}

// makeInflight answers GET_INFLIGHT_FD: with new memory, all zero.
func (s *session) makeInflight(a inflightArea) (*answer, error) {
	if err := checkInflight(a); err != nil {
		return nil, err
	}
	a.size, a.offset = uint64(int(a.queues)*inflightStride(int(a.queueSize))), 0
	fd, err := unix.MemfdCreate("vhost-inflight", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(a.size)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("memfd: %w", err)
	}
	return &answer{message: message{inflight: a}, fds: []int{fd}}, nil
}

// setInflight takes the memory of this front end into use; rings that start
// later look into it. fd stays the caller's.
func (s *session) setInflight(a inflightArea, fd int) error {
	if s.anyRunning() {
		return errors.New("inflight memory cannot change while rings run")
	}
	m, err := mapInflight(a, fd)
	if err != nil {
		return err
	}
	s.inflight.unmap()
	s.inflight = m
	return nil
}

// inflightMemory is inflight memory, mapped.
type inflightMemory struct {
	region guestRegion
	stride int
	queues int
}

func mapInflight(a inflightArea, fd int) (*inflightMemory, error) {
	if err := checkInflight(a); err != nil {
		return nil, err
	}
	m := &inflightMemory{stride: inflightStride(int(a.queueSize)), queues: int(a.queues)}
	if need := uint64(m.queues * m.stride); a.size < need {
		return nil, fmt.Errorf("inflight memory of %d bytes: must have %d", a.size, need)
	}
	var err error
	m.region, err = mapRegion(memRegion{size: a.size, offset: a.offset}, fd)
	if err != nil {
		return nil, fmt.Errorf("inflight memory: %w", err)
	}
	return m, nil
}

// unmap gives the mapping back. A call on nil does nothing.
func (m *inflightMemory) unmap() {
	if m != nil {
		unix.Munmap(m.region.mapping)
	}
}

// record is the part of a queue of size descriptors; nil when there is none.
func (m *inflightMemory) record(queue, size int) *usedRecord {
	if m == nil || queue >= m.queues || inflightStride(size) > m.stride {
		return nil
	}
	n := inflightHeader + inflightEntry*size
	return &usedRecord{b: m.region.bytes[queue*m.stride:][:n:n]}
}

// usedRecord notes where the next used descriptor of a packed virtqueue goes.
// It is a ring.PackedJournal.
type usedRecord struct{ b []byte }

// position reads a position: its offset and its wrap counter stand apart.
func (r *usedRecord) position(offsetAt, wrapAt int) uint16 {
	p := binary.LittleEndian.Uint16(r.b[offsetAt:])
	if r.b[wrapAt] != 0 {
		p |= 1 << 15
	}
	return p
}

func (r *usedRecord) setPosition(offsetAt, wrapAt int, p uint16) {
	binary.LittleEndian.PutUint16(r.b[offsetAt:], p&0x7fff)
	r.b[wrapAt] = byte(p >> 15)
}

func (r *usedRecord) setBurst(n int) {
	binary.LittleEndian.PutUint16(r.b[inflightBurstAt:], uint16(n))
}

// entry is the memory of entry i.
func (r *usedRecord) entry(i int) []byte {
	return r.b[inflightHeader+i*inflightEntry:][:inflightEntry]
}

// Begin notes what a flush is about to write, and where the position will be.
// The length of the burst is written last: it makes the note valid.
func (r *usedRecord) Begin(burst []ring.PackedUsed, used uint16) {
	le := binary.LittleEndian
	for i, u := range burst {
		e := r.entry(i)
		le.PutUint16(e[entryOffsetAt:], u.Offset)
		le.PutUint16(e[entryIDAt:], u.ID)
		le.PutUint16(e[entryFlagsAt:], u.Flags)
		le.PutUint32(e[entryLenAt:], u.Len)
	}
	r.setPosition(inflightUsedAt, inflightWrapAt, used)
	r.setBurst(len(burst))
}

// Commit notes that it is written.
func (r *usedRecord) Commit() {
	r.setPosition(inflightOldUsedAt, inflightOldWrapAt, r.position(inflightUsedAt, inflightWrapAt))
	r.setBurst(0)
}

// resume gives the base of a ring, which has size descriptors in desc: where
// the back end before this one was, whose last flush it completes, or else the
// front end's.
func (r *usedRecord) resume(size int, desc []byte, base uint32) (uint32, error) {
	le := binary.LittleEndian
	position := uint16(base >> 16)
	if position == 0 {
		position = uint16(base)
	}
	if le.Uint16(r.b[inflightVersionAt:]) == inflightVersion && int(le.Uint16(r.b[inflightSizeAt:])) == size {
		position = r.position(inflightOldUsedAt, inflightOldWrapAt)
		if n := int(le.Uint16(r.b[inflightBurstAt:])); n > 0 {
			position = r.position(inflightUsedAt, inflightWrapAt)
			if n > size || !ring.RedoPacked(size, desc, r.burst(n)) {
				return 0, errors.New("the inflight memory makes no sense")
			}
		}
	}
	r.Begin(nil, position)
	r.Commit()
	le.PutUint16(r.b[inflightSizeAt:], uint16(size))
	le.PutUint16(r.b[inflightVersionAt:], inflightVersion)
	return uint32(position) | uint32(position)<<16, nil
}

// burst reads the first n entries.
func (r *usedRecord) burst(n int) []ring.PackedUsed {
	le := binary.LittleEndian
	burst := make([]ring.PackedUsed, n)
	for i := range burst {
		e := r.entry(i)
		burst[i] = ring.PackedUsed{
			Offset: le.Uint16(e[entryOffsetAt:]), ID: le.Uint16(e[entryIDAt:]),
			Flags: le.Uint16(e[entryFlagsAt:]), Len: le.Uint32(e[entryLenAt:]),
		}
	}
	return burst
}

// forget makes the next ring start at the front end's base. A call on nil does
// nothing.
func (r *usedRecord) forget() {
	if r != nil {
		binary.LittleEndian.PutUint16(r.b[inflightVersionAt:], 0)
	}
}
