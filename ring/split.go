package ring

import (
	"fmt"
	"iter"
)

// Split is the driver's side of a split virtqueue (virtio 1.2, section 2.7).
// One goroutine owns it.
//
// Descriptors are handed out first in, first out. A device that uses them in
// order therefore finds descriptor n in entry n of the available ring each
// time round, and that ring is never written again; a device that completes
// out of order costs a write, not correctness.
type Split struct {
	areas splitAreas
	mask  uint16

	// The available ring: next is where the next chain goes, its entries up
	// to the published index are the device's.
	next  uint16
	flags uint16

	// The used ring: entries up to seen are known to be written, those below
	// taken were harvested.
	seen  uint16
	taken uint16

	// free is a queue of descriptors that nobody uses: freeGet to freePut.
	free             []uint16
	freeGet, freePut uint16

	// What the driver knows of each chain by its head, in private memory: the
	// number of descriptors, 0 when the device does not own it, and how they
	// hang together.
	length []uint16
	link   []uint16

	err error
}

// NewSplit makes the driver's side of a virtqueue over the three areas, which
// are zeroed and have the lengths and the alignment of NewSplitLayout(size).
// At most limit descriptors, 1 to size, are ever outstanding.
func NewSplit(size, limit int, desc, avail, used []byte) (*Split, error) {
	l, err := NewSplitLayout(size)
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > size {
		return nil, fmt.Errorf("ring: %d of %d descriptors to use: must be 1 to %d", limit, size, size)
	}
	if len(desc) < l.DescLen() || len(avail) < l.AvailLen || len(used) < l.UsedLen {
		return nil, fmt.Errorf("ring: areas of %d, %d and %d bytes are too short for %d descriptors", len(desc), len(avail), len(used), size)
	}
	r := &Split{
		areas:   viewSplit(l, desc, avail, used),
		mask:    uint16(size - 1),
		flags:   AvailNoInterrupt,
		free:    make([]uint16, size),
		freePut: uint16(limit),
		length:  make([]uint16, size),
		link:    make([]uint16, size),
	}
	for i := range limit {
		r.free[i] = uint16(i)
	}
	r.Publish()
	return r, nil
}

// Free is the number of descriptors that can be added now.
func (r *Split) Free() int { return int(r.freePut - r.freeGet) }

// Err is nil, or the rule that the device broke; it is a *RuleError.
func (r *Split) Err() error { return r.err }

// Add gives the device one buffer: a chain of a single descriptor with the
// given flags (DescWrite or 0). It returns the chain's head, by which the
// completion will name it. The caller made sure that Free is not 0. The device
// sees the buffer after Publish.
func (r *Split) Add(addr uint64, length uint32, flags uint16) (head uint16) {
	head = r.takeFree()
	r.areas.desc[head] = Desc{Addr: addr, Len: length, Flags: flags}
	r.offer(head, 1)
	return head
}

// NextHead is the head that the next Add or AddChain will return, for a caller
// that keeps memory by head and must fill it first. Free is not 0.
func (r *Split) NextHead() uint16 { return r.free[r.freeGet&r.mask] }

// Segment is one piece of a chain.
type Segment struct {
	Addr uint64
	Len  uint32
}

// AddChain gives the device one buffer of several pieces that it reads. The
// caller made sure that Free is at least len(segs), which is at least 1.
func (r *Split) AddChain(segs []Segment) (head uint16) {
	head = r.takeFree()
	id := head
	for i, s := range segs {
		d := Desc{Addr: s.Addr, Len: s.Len}
		if i < len(segs)-1 {
			d.Flags, d.Next = DescNext, r.takeFree()
			r.link[id] = d.Next
		}
		r.areas.desc[id] = d
		id = d.Next
	}
	r.offer(head, uint16(len(segs)))
	return head
}

func (r *Split) takeFree() uint16 {
	id := r.free[r.freeGet&r.mask]
	r.freeGet++
	return id
}

// offer puts the chain into the available ring. The entry is written only
// when it changes, which spares the device a cache miss.
func (r *Split) offer(head, length uint16) {
	r.length[head] = length
	if slot := &r.areas.avail[r.next&r.mask]; *slot != head {
		*slot = head
	}
	r.next++
}

// Publish shows the device all that was added. It orders everything written
// before it, and is a full fence before NeedKick: see the package comment.
func (r *Split) Publish() {
	r.areas.availWord.Store(uint32(r.next)<<16 | uint32(r.flags))
}

// NeedKick reports whether the device wants to be notified of what was
// published (section 2.7.10). It looks at the used index on the way.
func (r *Split) NeedKick() bool {
	w := r.areas.usedWord.Load()
	r.seen = uint16(w >> 16)
	return uint16(w)&UsedNoNotify == 0
}

// Completion is a chain that the device has used.
type Completion struct {
	Head uint16
	Len  uint32 // bytes that the device says it wrote
}

// Pending is the number of completions that are ready. It looks at the shared
// index only when none was known before.
func (r *Split) Pending() int {
	if r.seen == r.taken {
		r.seen = uint16(r.areas.usedWord.Load() >> 16)
	}
	return int(r.seen - r.taken)
}

// Harvest takes up to len(dst) completions, checks them and returns how many
// there are; their descriptors are free again. After a broken rule it returns
// those before it, and 0 from then on.
func (r *Split) Harvest(dst []Completion) int {
	n := r.Pending()
	if n == 0 || r.err != nil {
		return 0
	}
	if n > int(r.mask)+1-r.Free() {
		r.Fail("used index", "it moved past everything that was made available", uint64(r.seen))
		return 0
	}
	n = min(n, len(dst))
	for i := range dst[:n] {
		e := &r.areas.used[r.taken&r.mask]
		id, length := e.ID, e.Len
		if id > uint32(r.mask) {
			r.Fail("used id", "it is not a descriptor of this queue", uint64(id))
			return i
		}
		head := uint16(id)
		if r.length[head] == 0 {
			r.Fail("used id", "the device does not own that chain", uint64(id))
			return i
		}
		r.release(head)
		r.taken++
		dst[i] = Completion{Head: head, Len: length}
	}
	return n
}

// release puts a chain's descriptors at the end of the free queue.
func (r *Split) release(head uint16) {
	n := r.length[head]
	r.length[head] = 0
	for id := head; ; id = r.link[id] {
		r.free[r.freePut&r.mask] = id
		r.freePut++
		if n--; n == 0 {
			return
		}
	}
}

// Outstanding goes through the heads of the chains that the device owns. It is
// for the end of a ring's life: the chains stay marked as the device's.
func (r *Split) Outstanding() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for head, n := range r.length {
			if n != 0 && !yield(uint16(head)) {
				return
			}
		}
	}
}

// Fail makes the ring unusable because of a rule that only its owner can
// check; the first broken rule is kept.
func (r *Split) Fail(field, rule string, got uint64) {
	if r.err != nil {
		return
	}
	r.err = &RuleError{Field: field, Rule: rule, Got: got}
}

// RuleError says which rule of the specification the other side of a ring
// broke. The ring is unusable until its device was reset.
type RuleError struct {
	Field string // the shared field
	Rule  string // what is wrong with it
	Got   uint64 // its value
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("%s %d from the other side of the virtqueue: %s", e.Field, e.Got, e.Rule)
}
