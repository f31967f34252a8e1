package ring

import "fmt"

// Split is the driver's side of a split virtqueue (virtio 1.2, section 2.7).
type Split struct {
	chains
	areas splitAreas
	mask  int
	limit int // descriptors in use at most

	// The available ring: next is where the next chain goes, its entries up
	// to shown are the device's, those up to kicked it was asked about.
	next, kicked uint16
	flags        uint16

	// The used ring: entries up to seen are known to be written, those below
	// taken were harvested.
	seen, taken uint16

	link     []uint16 // by descriptor of a chain, the next one
	opts     Options
	batch    batch
	indirect indirectTables
}

// NewSplit makes the driver's side of a virtqueue over the three areas, which
// are zeroed and have the lengths and the alignment of NewSplitLayout(size).
// At most limit descriptors, 1 to size, are ever outstanding.
func NewSplit(size, limit int, desc, avail, used []byte, opts Options) (*Split, error) {
	l, err := NewSplitLayout(size)
	if err != nil {
		return nil, err
	}
	if err := checkLimit(size, limit); err != nil {
		return nil, err
	}
	if len(desc) < l.DescLen() || len(avail) < l.AvailLen || len(used) < l.UsedLen {
		return nil, fmt.Errorf("ring: areas of %d, %d and %d bytes are too short for %d descriptors", len(desc), len(avail), len(used), size)
	}
	r := &Split{
		chains: newChains(size, limit),
		areas:  viewSplit(l, desc, avail, used),
		mask:   size - 1,
		limit:  limit,
		link:   make([]uint16, size),
		opts:   opts,
	}
	if r.indirect, err = newIndirectTables(size, opts); err != nil {
		return nil, err
	}
	if opts.InOrder {
		r.batch = newBatch(size)
	}
	r.Disarm()
	return r, nil
}

func checkLimit(size, limit int) error {
	if limit < 1 || limit > size {
		return fmt.Errorf("ring: %d of %d descriptors to use: must be 1 to %d", limit, size, size)
	}
	return nil
}

// Free is the number of descriptors that can be added now.
func (r *Split) Free() int { return r.spare }

// Cost is the number of descriptors that a chain of n segments takes.
func (r *Split) Cost(n int) int { return r.indirect.cost(n) }

// AddEach gives the device one buffer for each of segs; see Driver.
func (r *Split) AddEach(segs []Segment, flags uint16, heads []uint16) {
	heads = heads[:len(segs)]
	r.takeEach(heads)
	desc := r.areas.desc
	if len(desc) == 0 {
		return // see takeEach
	}
	mask, avail, next := len(desc)-1, r.areas.avail[:len(desc)], int(r.next)
	for i, head := range heads {
		desc[int(head)&mask] = Desc{Addr: segs[i].Addr, Len: segs[i].Len, Flags: flags}
		// An entry is written only when it changes, which spares the device
		// a cache miss.
		if slot := &avail[next&mask]; *slot != head {
			*slot = head
		}
		next++
	}
	r.next = uint16(next)
	if r.opts.InOrder {
		r.batch.post(segs, heads)
	}
}

// AddChains gives the device buffers of several pieces; see Driver.
func (r *Split) AddChains(segs []Segment, lengths []uint16, heads []uint16) {
	for i, n := range lengths {
		heads[i] = r.addChain(segs[:n])
		segs = segs[n:]
	}
}

func (r *Split) addChain(segs []Segment) (head uint16) {
	head = r.takeHead()
	if r.Cost(len(segs)) < len(segs) {
		r.areas.desc[head] = r.indirect.split(head, segs)
		r.length[head] = 1
	} else {
		r.writeChain(head, segs)
		r.length[head] = uint16(len(segs))
	}
	if slot := &r.areas.avail[int(r.next)&r.mask]; *slot != head {
		*slot = head
	}
	r.next++
	return head
}

// writeChain writes the descriptors of a chain into the ring.
func (r *Split) writeChain(head uint16, segs []Segment) {
	id := head
	for i, s := range segs {
		d := Desc{Addr: s.Addr, Len: s.Len}
		if i < len(segs)-1 {
			d.Flags, d.Next = DescNext, r.takeHead()
			r.link[id] = d.Next
		}
		r.areas.desc[id] = d
		id = d.Next
	}
}

// Publish shows the device all that was added. It orders everything written
// before it, and is a full fence before NeedKick: see the package comment.
func (r *Split) Publish() {
	r.areas.availWord.Swap(uint32(r.next)<<16 | uint32(r.flags))
}

// NeedKick reports whether the device wants to be notified. It looks at the
// used index on the way.
func (r *Split) NeedKick() bool {
	old := r.kicked
	r.kicked = r.next
	w := r.areas.usedWord.Load()
	r.seen = uint16(w >> 16)
	if r.opts.EventIdx {
		return needEvent(uint16(r.areas.availEvent.Load()), r.next, old)
	}
	return uint16(w)&UsedNoNotify == 0
}

// Position is the available index.
func (r *Split) Position() uint16 { return r.next }

// pending is the number of completions that are ready. It looks at the shared
// index only when fewer than want are known.
func (r *Split) pending(want int) int {
	if int(r.seen-r.taken) < want {
		r.seen = uint16(r.areas.usedWord.Load() >> 16)
	}
	return int(r.seen - r.taken)
}

// Harvest takes completions; see Driver.
func (r *Split) Harvest(dst []Completion) int {
	n := r.pending(len(dst))
	if n == 0 || r.err != nil {
		return 0
	}
	if n > r.limit-r.Free() {
		r.Fail("used index", "it moved past everything that was made available", uint64(r.seen))
		return 0
	}
	dst = dst[:min(n, len(dst))]
	for n = 0; n < len(dst); n++ {
		n += r.harvestPlain(dst[n:])
		if n == len(dst) || !r.harvestChain(&dst[n]) {
			break
		}
	}
	return n
}

// harvestPlain takes completions of chains of one descriptor, under IN_ORDER
// those that the device reports one by one, and ends before anything else.
func (r *Split) harvestPlain(dst []Completion) (n int) {
	used := r.areas.used
	if len(used) == 0 || r.batch.open {
		return 0
	}
	mask, length, spare := len(used)-1, r.length[:len(used)], r.heads[:len(used)]
	taken, put := int(r.taken), r.put
	inOrder, oldest, limit := r.opts.InOrder, int(r.batch.oldest), r.limit
	for i := range dst {
		e := &used[taken&mask]
		id, written := e.ID, e.Len
		if int(id) >= len(length) || length[id] != 1 || inOrder && int(id) != oldest {
			break
		}
		length[id] = 0
		spare[put&mask] = uint16(id)
		dst[i] = Completion{Head: uint16(id), Len: written}
		taken++
		put++
		if oldest++; oldest == limit {
			oldest = 0
		}
		n = i + 1
	}
	r.taken, r.put, r.spare = uint16(taken), put&mask, r.spare+n
	r.batch.oldest = uint16(oldest)
	return n
}

// harvestChain takes a completion of any kind. It is false when the device broke
// a rule. Under IN_ORDER the device may report a batch by its last buffer; the
// used index counts the buffers of the batch all the same.
func (r *Split) harvestChain(c *Completion) bool {
	e := &r.areas.used[int(r.taken)&r.mask]
	id, written := e.ID, e.Len
	if !r.batch.open && !r.owned(id) {
		return false
	}
	head := uint16(id)
	if r.opts.InOrder {
		if !r.batch.open {
			r.batch.begin(head, written)
		}
		head = r.batch.oldest
		*c = r.batch.next(around(int(head)+int(r.length[head]), r.limit))
	} else {
		*c = Completion{Head: head, Len: written}
	}
	r.release(head)
	r.taken++
	return true
}

// release puts a chain's descriptors at the end of the free queue.
func (r *Split) release(head uint16) {
	n := r.length[head]
	r.length[head] = 0
	for id := head; n > 0; id, n = r.link[id], n-1 {
		r.putHead(id)
	}
}

// Arm asks the device for an interrupt; see Driver.
func (r *Split) Arm() bool { return r.arm(r.taken) }

// ArmAfter asks for one when n descriptors are free; see Driver. The used index
// counts chains: how many of them n descriptors are is known on average only.
func (r *Split) ArmAfter(n int) bool {
	chains, owned := int(r.next-r.taken), r.limit-r.spare
	return r.arm(r.taken + uint16((n*chains+owned-1)/owned) - 1)
}

// arm asks for an interrupt with the next completion, or where there is
// EVENT_IDX when the used index passes event.
func (r *Split) arm(event uint16) bool {
	r.flags = 0
	if r.opts.EventIdx {
		r.areas.setUsedEvent(event)
	}
	// The store of the available word is the fence between asking and
	// looking.
	r.Publish()
	return r.pending(1) == 0
}

// Disarm tells the device that no interrupts are wanted. Under EVENT_IDX there
// is no way to say never: the event is put as far away as it can be.
func (r *Split) Disarm() {
	if r.opts.EventIdx {
		r.areas.setUsedEvent(r.taken - 1)
	} else {
		r.flags = AvailNoInterrupt
	}
	r.Publish()
}
