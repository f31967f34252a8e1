package ring

// batch is the state of completions under IN_ORDER (virtio 1.2, sections 2.7.9
// and 2.8.9): the device may report several buffers by the last of them. The
// chains then are complete from the oldest up to that one, whose order is
// known, since heads are handed out in a circle.
type batch struct {
	oldest uint16   // head of the oldest chain that the device owns
	last   uint16   // the head that the device named
	len    uint32   // and the bytes that it wrote there
	open   bool     // a batch is under way: oldest to last are complete
	posted []uint32 // by head, the bytes that the device may have written
}

func newBatch(size int) batch { return batch{posted: make([]uint32, powerOfTwo(size))} }

// post takes note of what the device may write of each of segs.
func (b *batch) post(segs []Segment, heads []uint16) {
	posted := b.posted
	if len(posted) == 0 {
		return
	}
	heads, mask := heads[:len(segs)], len(posted)-1
	for i, head := range heads {
		posted[int(head)&mask] = segs[i].Len
	}
}

// begin opens the batch that a used entry with this id and length stands for.
// The id is the head of a chain that the device owns; in a circle of chains
// that all are the device's, that is reached from the oldest.
func (b *batch) begin(id uint16, written uint32) {
	b.last, b.len, b.open = id, written, true
}

// next gives the next completion of the batch, whose following chain is at
// after.
func (b *batch) next(after uint16) Completion {
	c := Completion{Head: b.oldest, Len: b.posted[b.oldest]}
	if b.oldest == b.last {
		c.Len, b.open = b.len, false
	}
	b.oldest = after
	return c
}

// around is the head at position n of the circle of limit heads.
func around(n, limit int) uint16 {
	if n >= limit {
		n -= limit
	}
	return uint16(n)
}
