package vhost

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"vionet/port"
	"vionet/ring"
)

// rawRing is a driver's side of a split virtqueue, as plain as can be: a chain
// is one descriptor, and what the device writes is believed.
type rawRing struct {
	desc, avail, used   []byte
	availWord, usedWord *atomic.Uint32
	free                []uint16
	next, taken         uint16
}

// room is the number of chains that can be added.
func (r *rawRing) room() int { return len(r.free) }

// rawDone is a chain that the device has used.
type rawDone struct {
	head uint16
	len  uint32
}

func newRawRing(q port.QueueSetup) *rawRing {
	r := &rawRing{desc: q.Desc.Bytes, avail: q.Avail.Bytes, used: q.Used.Bytes}
	// Both words are the first four bytes of areas aligned to a page.
	r.availWord = (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(r.avail)))
	r.usedWord = (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(r.used)))
	for i := range q.Size {
		r.free = append(r.free, uint16(i))
	}
	return r
}

// nextHead is the descriptor that add will use.
func (r *rawRing) nextHead() uint16 { return r.free[len(r.free)-1] }

// add makes one buffer available, with the next publish.
func (r *rawRing) add(addr uint64, n uint32, flags uint16) {
	head := r.nextHead()
	r.free = r.free[:len(r.free)-1]
	d := r.desc[int(head)*ring.DescSize:]
	binary.LittleEndian.PutUint64(d, addr)
	binary.LittleEndian.PutUint32(d[8:], n)
	binary.LittleEndian.PutUint16(d[12:], flags)
	binary.LittleEndian.PutUint16(r.avail[4+2*(int(r.next)%rigSize):], head)
	r.next++
}

// publish shows the device what was added, and reports whether it wants a
// kick for that. Interrupts stay off.
func (r *rawRing) publish() (kick bool) {
	r.availWord.Store(uint32(r.next)<<16 | uint32(ring.AvailNoInterrupt))
	return uint16(r.usedWord.Load())&ring.UsedNoNotify == 0
}

// arm asks for interrupts, until the next publish.
func (r *rawRing) arm() bool {
	r.availWord.Store(uint32(r.next) << 16)
	return r.pending() == 0
}

// pending is the number of chains to harvest.
func (r *rawRing) pending() int { return int(uint16(r.usedWord.Load()>>16) - r.taken) }

// harvest takes up to len(dst) used chains.
func (r *rawRing) harvest(dst []rawDone) int {
	n := min(r.pending(), len(dst))
	for i := range dst[:n] {
		e := r.used[4+8*(int(r.taken)%rigSize):]
		dst[i] = rawDone{uint16(binary.LittleEndian.Uint32(e)), binary.LittleEndian.Uint32(e[4:])}
		r.free = append(r.free, dst[i].head)
		r.taken++
	}
	return n
}
