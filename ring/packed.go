package ring

import (
	"fmt"
	"sync/atomic"
)

// Flags of a packed descriptor beside those of a split one (virtio 1.2, section
// 2.8.1).
const (
	packedAvail uint16 = 1 << 7
	packedUsed  uint16 = 1 << 15
)

// Flags of the event suppression structures (section 2.8.14).
const (
	eventEnable  uint16 = 0
	eventDisable uint16 = 1
	eventDesc    uint16 = 2
)

// packedDesc is a descriptor of a packed virtqueue (section 2.8.13), as it lies
// in memory. ID and flags are one word, since that word is what makes the
// descriptor available or used.
type packedDesc struct {
	Addr uint64
	Len  uint32
	Word uint32 // id | flags<<16
}

// PackedLayout says where the three areas of a packed virtqueue stand within
// one block of memory, whose start must be aligned to PackedAlign. The event
// structures have a cache line each.
type PackedLayout struct {
	Size                 int
	DriverOff, DeviceOff int
	Total                int
}

// DescLen is the length of the descriptor area, which starts at 0.
func (l PackedLayout) DescLen() int { return l.Size * DescSize }

// EventLen is the length of an event suppression structure, PackedAlign the
// alignment of the block.
const (
	EventLen    = 4
	PackedAlign = 64
)

// NewPackedLayout lays a packed virtqueue of size descriptors out. Any size
// will do.
func NewPackedLayout(size int) (PackedLayout, error) {
	if size < 1 || size > MaxSize {
		return PackedLayout{}, fmt.Errorf("ring: packed virtqueue of %d descriptors: the size must be 1 to %d", size, MaxSize)
	}
	l := PackedLayout{Size: size}
	l.DriverOff = roundUp(l.DescLen(), PackedAlign)
	l.DeviceOff = l.DriverOff + PackedAlign
	l.Total = l.DeviceOff + PackedAlign
	return l, nil
}

// Packed is the driver's side of a packed virtqueue (virtio 1.2, section 2.8).
// Heads are buffer ids.
type Packed struct {
	chains
	areas packedAreas
	size  int
	limit int
	free  int // descriptors

	// next is where the next descriptor goes, avail the flags that make it
	// available this time round.
	next  int
	avail uint16

	// A burst becomes available with its first descriptor, whose word is
	// written last: at first is the word to write there. It is -1 when nothing
	// waits.
	first     int
	firstWord uint32
	kicked    uint16 // position at the last NeedKick

	// taken is where the next used descriptor will be, wrap whether it has its
	// used bit set then.
	taken int
	wrap  bool

	opts     Options
	batch    batch
	indirect indirectTables
}

// NewPacked makes the driver's side of a virtqueue over the three areas, which
// are zeroed and have the lengths of NewPackedLayout(size); device is 4-byte
// aligned, as driver and desc are. At most limit descriptors, 1 to size, are
// ever outstanding.
func NewPacked(size, limit int, desc, driver, device []byte, opts Options) (*Packed, error) {
	l, err := NewPackedLayout(size)
	if err != nil {
		return nil, err
	}
	if err := checkLimit(size, limit); err != nil {
		return nil, err
	}
	if len(desc) < l.DescLen() || len(driver) < EventLen || len(device) < EventLen {
		return nil, fmt.Errorf("ring: areas of %d, %d and %d bytes are too short for %d descriptors", len(desc), len(driver), len(device), size)
	}
	r := &Packed{
		chains: newChains(size, limit),
		areas:  viewPacked(l, desc, driver, device),
		size:   size,
		limit:  limit,
		free:   limit,
		avail:  packedAvail,
		first:  -1,
		kicked: 1 << 15, // the wrap counter starts as 1
		wrap:   true,
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

// Free is the number of descriptors that can be added now.
func (r *Packed) Free() int { return r.free }

// Cost is the number of descriptors that a chain of n segments takes.
func (r *Packed) Cost(n int) int { return r.indirect.cost(n) }

// AddEach gives the device one buffer for each of segs; see Driver.
func (r *Packed) AddEach(segs []Segment, flags uint16, heads []uint16) {
	heads = heads[:len(segs)]
	r.takeEach(heads)
	r.free -= len(segs)
	if r.opts.InOrder {
		r.batch.post(segs, heads)
	}
	if len(segs) > 0 && r.first < 0 {
		r.write(&r.areas.desc[r.next], segs[0], heads[0], flags)
		segs, heads = segs[1:], heads[1:]
	}
	for len(segs) > 0 {
		n := r.writeRun(segs, heads, flags)
		segs, heads = segs[n:], heads[n:]
	}
}

// writeRun fills descriptors behind the first of a burst, up to the end of the
// ring at most, and returns how many.
func (r *Packed) writeRun(segs []Segment, heads []uint16, flags uint16) (n int) {
	run := r.areas.desc[r.next:]
	run = run[:min(len(run), len(segs))]
	segs, heads = segs[:len(run)], heads[:len(run)]
	high := uint32(flags|r.avail) << 16
	for i := range run {
		run[i] = packedDesc{Addr: segs[i].Addr, Len: segs[i].Len, Word: uint32(heads[i]) | high}
	}
	r.move(len(run))
	return len(run)
}

// move goes n descriptors forward, to the end of the ring at most.
func (r *Packed) move(n int) {
	if r.next += n; r.next == r.size {
		r.next = 0
		r.avail ^= packedAvail | packedUsed
	}
}

// write fills the descriptor at next and moves on. The first of a burst stays
// unavailable until Publish.
func (r *Packed) write(d *packedDesc, s Segment, id, flags uint16) {
	d.Addr, d.Len = s.Addr, s.Len
	word := uint32(id) | uint32(flags|r.avail)<<16
	if r.first < 0 {
		r.first, r.firstWord = r.next, word
	} else {
		d.Word = word
	}
	r.move(1)
}

// AddChains gives the device buffers of several pieces; see Driver.
func (r *Packed) AddChains(segs []Segment, lengths []uint16, heads []uint16) {
	for i, n := range lengths {
		heads[i] = r.addChain(segs[:n])
		segs = segs[n:]
	}
}

func (r *Packed) addChain(segs []Segment) (head uint16) {
	head = r.takeHead()
	if r.Cost(len(segs)) < len(segs) {
		r.write(&r.areas.desc[r.next], r.indirect.packed(head, segs), head, DescIndirect)
		r.length[head] = 1
	} else {
		for i, s := range segs {
			flags := uint16(0)
			if i < len(segs)-1 {
				flags = DescNext
			}
			r.write(&r.areas.desc[r.next], s, head, flags)
		}
		r.length[head] = uint16(len(segs))
	}
	r.free -= int(r.length[head])
	return head
}

// Publish shows the device all that was added, by the word of the first
// descriptor. It orders everything written before it, and is a full fence
// before NeedKick: see the package comment.
func (r *Packed) Publish() {
	if r.first >= 0 {
		atomic.SwapUint32(&r.areas.desc[r.first].Word, r.firstWord)
		r.first = -1
	}
}

// NeedKick reports whether the device wants to be notified.
func (r *Packed) NeedKick() bool {
	old := r.kicked
	r.kicked = r.Position()
	event := r.areas.deviceEvent.Load()
	switch uint16(event >> 16) {
	case eventDisable:
		return false
	case eventDesc:
		return !r.opts.EventIdx || r.passed(uint16(event), r.kicked, old)
	default:
		return true
	}
}

// passed reports whether the move from position old to now passes the
// descriptor that the device names.
func (r *Packed) passed(event, now, old uint16) bool {
	at := placeAt(now)
	behind := at.since(placeAt(event), r.size)
	return behind > 0 && behind <= at.since(placeAt(old), r.size)
}

// Position is the offset of the next descriptor, with the wrap counter.
func (r *Packed) Position() uint16 {
	if r.avail == packedAvail {
		return uint16(r.next) | 1<<15
	}
	return uint16(r.next)
}

// used looks at the descriptor where the next completion will be.
func (r *Packed) used() (id uint16, written uint32, ok bool) {
	d := &r.areas.desc[r.taken]
	word := atomic.LoadUint32(&d.Word)
	flags := uint16(word >> 16)
	isUsed := flags&packedUsed != 0
	if isUsed != (flags&packedAvail != 0) || isUsed != r.wrap {
		return 0, 0, false
	}
	return uint16(word), d.Len, true
}

// Harvest takes completions; see Driver.
func (r *Packed) Harvest(dst []Completion) (n int) {
	if r.err != nil {
		return 0
	}
	for ; n < len(dst); n++ {
		n += r.harvestPlain(dst[n:])
		if n == len(dst) || !r.harvestChain(&dst[n]) {
			break
		}
	}
	return n
}

// harvestPlain takes completions of chains of one descriptor, under IN_ORDER
// those that the device reports one by one, and ends before anything else and
// at the end of the ring.
func (r *Packed) harvestPlain(dst []Completion) (n int) {
	spare := r.heads
	if len(spare) == 0 || r.batch.open {
		return 0
	}
	// Whatever stands behind the descriptors that are the device's is old.
	run := r.areas.desc[r.taken:]
	run = run[:min(len(run), len(dst), r.limit-r.free)]
	dst = dst[:len(run)]
	mask, length, put := len(spare)-1, r.length[:len(spare)], r.put
	inOrder, oldest, limit := r.opts.InOrder, int(r.batch.oldest), r.limit
	const bits = uint32(packedAvail|packedUsed) << 16
	want := uint32(0)
	if r.wrap {
		want = bits
	}
	for i := range run {
		word := atomic.LoadUint32(&run[i].Word)
		id := int(uint16(word))
		if word&bits != want || id >= len(length) || length[id] != 1 || inOrder && id != oldest {
			break
		}
		dst[i] = Completion{Head: uint16(id), Len: run[i].Len}
		length[id] = 0
		spare[put&mask] = uint16(id)
		put++
		if oldest++; oldest == limit {
			oldest = 0
		}
		n = i + 1
	}
	r.put, r.spare = put&mask, r.spare+n
	r.batch.oldest = uint16(oldest)
	r.pass(n)
	return n
}

// harvestChain takes a completion of any kind. It is false when there is none,
// and when the device broke a rule. Under IN_ORDER the device may report a batch
// by its last buffer: it then skips the descriptors of the others.
func (r *Packed) harvestChain(c *Completion) bool {
	if !r.batch.open {
		if r.free == r.limit {
			return false // whatever stands there is old
		}
		id, written, ok := r.used()
		if !ok || !r.owned(uint32(id)) {
			return false
		}
		if !r.opts.InOrder {
			*c = Completion{Head: id, Len: written}
			r.release(id)
			return true
		}
		r.batch.begin(id, written)
	}
	head := r.batch.oldest
	*c = r.batch.next(around(int(head)+1, r.limit))
	r.release(head)
	return true
}

// release frees a chain and moves past the place of its used descriptor.
func (r *Packed) release(head uint16) {
	n := int(r.length[head])
	r.length[head] = 0
	r.putHead(head)
	r.pass(n)
}

// pass frees n descriptors: the next used one comes behind them.
func (r *Packed) pass(n int) {
	r.free += n
	if r.taken += n; r.taken >= r.size {
		r.taken -= r.size
		r.wrap = !r.wrap
	}
}

// Arm asks the device for an interrupt; see Driver.
func (r *Packed) Arm() bool { return r.ArmAfter(1) }

// ArmAfter asks for one when n descriptors are free; see Driver. With EVENT_IDX
// the last of them is the one that the device is to pass (virtio 1.2, section
// 2.8.10).
func (r *Packed) ArmAfter(n int) bool {
	event := uint32(eventEnable) << 16
	if r.opts.EventIdx {
		last := place{offset: r.taken, wrap: r.wrap}
		last.move(n-1, r.size)
		event = uint32(eventDesc)<<16 | uint32(last.position())
	}
	// The store is the fence between asking and looking.
	r.areas.driverEvent.Swap(event)
	return !r.completed()
}

// completed reports whether there is something to harvest, be it the rest of a
// batch, which no descriptor shows.
func (r *Packed) completed() bool {
	if r.batch.open {
		return true
	}
	_, _, ok := r.used()
	return ok && r.free < r.limit
}

// Disarm tells the device that no interrupts are wanted.
func (r *Packed) Disarm() { r.areas.driverEvent.Store(uint32(eventDisable) << 16) }
