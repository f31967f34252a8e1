package ring

import (
	"encoding/binary"
	"sync/atomic"
)

// PackedDevice is the device's side of a packed virtqueue (virtio 1.2, section
// 2.8). It is a Device; heads are buffer ids.
type PackedDevice struct {
	rules
	areas      packedAreas
	eventIdx   bool
	readTables bool
	journal    PackedJournal

	next place // of the next available descriptor
	done place // of the next used descriptor

	// What was taken, in private memory: by buffer id how many descriptors its
	// chain has, 0 for one that was not taken; and the ids in the order in
	// which they were taken, in a circle.
	length []uint16
	order  []uint16
	takes  int
	taken  int // descriptors, until the driver sees them used

	burst   []PackedUsed // completed, not shown
	flushed place        // of the next used descriptor at the last Flush
}

// PackedUsed is a used descriptor, as it is to be written at an offset of the
// ring.
type PackedUsed struct {
	Offset, ID, Flags uint16
	Len               uint32
}

// position is where it is, with the wrap counter that its flags stand for.
func (u PackedUsed) position() uint16 {
	return place{offset: int(u.Offset), wrap: u.Flags&packedUsed != 0}.position()
}

// PackedJournal keeps what a Flush is about to do, for the device that comes
// after this one: unlike a split virtqueue, a packed one does not show where the
// last device was, and a used descriptor overwrites an available one.
type PackedJournal interface {
	// Begin comes before a Flush that writes burst and moves the position of
	// the next used descriptor to used; Commit comes after it. When the device
	// ends in between, RedoPacked completes the Flush.
	Begin(burst []PackedUsed, used uint16)
	Commit()
}

// NewPackedDevice makes the device's side of a virtqueue of size descriptors
// over the three areas that the driver laid out, as long as PackedLayout says.
// journal may be nil.
//
// The device starts at base, which is as Base gives it: at the next used
// descriptor, so that what a device that went away had taken but not used is
// served again. Where the upper 16 bits are 0, the lower ones hold for both. A
// fresh ring starts at FreshPacked.
func NewPackedDevice(size int, desc, driver, device []byte, base uint32, journal PackedJournal, opts DeviceOptions) (*PackedDevice, error) {
	l, err := NewPackedLayout(size)
	if err != nil {
		return nil, err
	}
	if err := checkDeviceAreas(size, desc, driver, device, l.DescLen(), EventLen, EventLen); err != nil {
		return nil, err
	}
	position := uint16(base >> 16)
	if position == 0 {
		position = uint16(base)
	}
	start := placeAt(position)
	if start.offset >= size {
		return nil, &RuleError{Field: "base", Rule: "it is not a descriptor of this queue", Got: uint64(base)}
	}
	d := &PackedDevice{
		rules:    rules{translate: opts.Translate, size: size},
		areas:    viewPacked(l, desc, driver, device),
		eventIdx: opts.EventIdx, readTables: opts.ReadTables,
		journal: journal,
		next:    start, done: start, flushed: start,
		length: make([]uint16, size),
		order:  make([]uint16, size),
		burst:  make([]PackedUsed, 0, size),
	}
	d.Notify(true)
	return d, nil
}

// FreshPacked is the Base of a packed virtqueue that was never used: both wrap
// counters start as 1.
const FreshPacked uint32 = 1<<15 | 1<<31

// RedoPacked completes a Flush of burst that a device has begun and may not have
// ended, over the descriptors of a packed virtqueue of size descriptors. It is
// false, with nothing changed, when the burst does not lie in the ring.
func RedoPacked(size int, desc []byte, burst []PackedUsed) bool {
	l, err := NewPackedLayout(size)
	if err != nil || len(desc) < l.DescLen() || !aligned(desc, DescSize) {
		return false
	}
	for _, u := range burst {
		if int(u.Offset) >= size {
			return false
		}
	}
	if len(burst) > 0 {
		d := viewPackedDescs(l, desc)
		// The first is written last. Once it was, the driver may have used the
		// others again.
		first := placeAt(burst[0].position())
		if first.available(uint16(atomic.LoadUint32(&d[first.offset].Word) >> 16)) {
			writeUsed(d, burst)
		}
	}
	return true
}

// writeUsed writes a burst of used descriptors, which the driver sees with the
// first of them.
func writeUsed(desc []packedDesc, burst []PackedUsed) {
	for _, u := range burst[1:] {
		e := &desc[u.Offset]
		e.Len, e.Word = u.Len, u.word()
	}
	u := burst[0]
	desc[u.Offset].Len = u.Len
	atomic.SwapUint32(&desc[u.Offset].Word, u.word())
}

func (u PackedUsed) word() uint32 { return uint32(u.ID) | uint32(u.Flags)<<16 }

// place is where in a packed virtqueue a side is.
type place struct {
	offset int
	wrap   bool // the wrap counter
}

func placeAt(position uint16) place {
	return place{offset: int(position & 0x7fff), wrap: position>>15 != 0}
}

func (p place) position() uint16 {
	if p.wrap {
		return uint16(p.offset) | 1<<15
	}
	return uint16(p.offset)
}

// move goes n descriptors forward, or back where n is negative; at most once
// round the ring.
func (p *place) move(n, size int) {
	p.offset += n
	switch {
	case p.offset >= size:
		p.offset -= size
		p.wrap = !p.wrap
	case p.offset < 0:
		p.offset += size
		p.wrap = !p.wrap
	}
}

// available reports whether a descriptor with these flags is available this
// time round.
func (p place) available(flags uint16) bool {
	return flags&packedAvail != 0 == p.wrap && flags&packedUsed != 0 != p.wrap
}

// since counts the descriptors from an earlier place to p: less than two turns
// of the ring, which is how far the wrap counter tells places apart.
func (p place) since(earlier place, size int) int {
	n := p.offset - earlier.offset
	if p.wrap != earlier.wrap {
		n += size
	}
	return (n + 2*size) % (2 * size)
}

// Base is where another device would go on; see Device.
func (d *PackedDevice) Base() uint32 {
	return uint32(d.next.position()) | uint32(d.done.position())<<16
}

// Pending is 1 when there is a chain to take, or 0.
func (d *PackedDevice) Pending() int {
	if d.err == nil && d.next.available(uint16(d.word(d.next)>>16)) {
		return 1
	}
	return 0
}

// word is the id and, in the upper half, the flags of a descriptor.
func (d *PackedDevice) word(at place) uint32 {
	return atomic.LoadUint32(&d.areas.desc[at.offset].Word)
}

// Take takes chains; see Device.
func (d *PackedDevice) Take(chains []Chain, pieces []Piece) int {
	n := d.takePlain(chains, pieces)
	for used := n; n < len(chains); {
		if d.err != nil || !d.next.available(uint16(d.word(d.next)>>16)) {
			return n
		}
		id, count, slots := d.walkChain(pieces[used:])
		if count == 0 {
			return d.tooLong(n, pieces)
		}
		if !d.own(id, slots) {
			return n
		}
		chains[n] = Chain{Head: id, Pieces: uint16(count)}
		n, used = n+1, used+count
		more := d.takePlain(chains[n:], pieces[used:])
		n, used = n+more, used+more
	}
	return n
}

// takePlain takes chains of one descriptor, and ends before anything else.
func (d *PackedDevice) takePlain(chains []Chain, pieces []Piece) (n int) {
	if d.err != nil {
		return 0
	}
	most := min(len(chains), len(pieces), d.size-d.taken)
	chains, pieces = chains[:most], pieces[:most]
	desc, length, order := d.areas.desc, d.length, d.order
	at, takes := d.next, d.takes
	plain := packedUsed // the flags of a plain descriptor that is available
	if at.wrap {
		plain = packedAvail
	}
	for n < len(chains) {
		e := &desc[at.offset]
		word := atomic.LoadUint32(&e.Word)
		id, flags := uint16(word), uint16(word>>16)
		if flags&(packedAvail|packedUsed|DescNext|DescIndirect) != plain || int(id) >= len(length) || length[id] != 0 {
			break
		}
		pieces[n] = Piece{Addr: e.Addr, Len: e.Len, Write: flags&DescWrite != 0}
		chains[n] = Chain{Head: id, Pieces: 1}
		n++
		length[id] = 1
		order[takes] = id
		if takes++; takes == len(order) {
			takes = 0
		}
		if at.offset++; at.offset == len(desc) {
			at = place{wrap: !at.wrap}
			plain ^= packedAvail | packedUsed
		}
	}
	d.next, d.takes = at, takes
	d.taken += n
	return n
}

// walkChain copies the next chain, whose first descriptor is available, into
// pieces. It gives the number of these, or 0, and that of its descriptors.
func (d *PackedDevice) walkChain(pieces []Piece) (id uint16, n, slots int) {
	at := d.next
	for more := true; more; slots++ {
		if slots == d.size-d.taken {
			d.Fail("descriptor", "more are available than the virtqueue has", uint64(at.offset))
			return 0, 0, 0
		}
		e, word := &d.areas.desc[at.offset], d.word(at)
		desc := Desc{Addr: e.Addr, Len: e.Len, Flags: uint16(word >> 16)}
		if !at.available(desc.Flags) {
			d.Fail("descriptor flags", "a chain goes on where nothing is available", uint64(desc.Flags))
			return 0, 0, 0
		}
		if n = d.walk(desc, pieces, n); n == 0 {
			return 0, 0, 0
		}
		id = uint16(word) // that of the last one is the chain's
		at.move(1, d.size)
		more = desc.Flags&DescNext != 0
	}
	return id, n, slots
}

// own takes note of a chain that was taken. It is false for one that the driver
// must not have sent.
func (d *PackedDevice) own(id uint16, slots int) bool {
	if int(id) >= d.size {
		return d.Fail("buffer id", "it is not below the size of the queue", uint64(id))
	}
	if d.length[id] != 0 {
		return d.Fail("buffer id", "the driver gave it away and has not got it back", uint64(id))
	}
	d.length[id] = uint16(slots)
	d.order[d.takes] = id
	d.takes = int(around(d.takes+1, d.size))
	d.taken += slots
	d.next.move(slots, d.size)
	return true
}

// walk copies a descriptor, or the table that it points to, into pieces, where
// n came before it, and gives the number of pieces then, or 0. Entries of a
// table follow each other without links.
func (d *PackedDevice) walk(desc Desc, pieces []Piece, n int) int {
	if desc.Flags&DescIndirect == 0 {
		if !d.put(pieces, n, desc) {
			return 0
		}
		return n + 1
	}
	table, ok := d.table(desc)
	if !ok {
		return 0
	}
	for ; len(table) > 0; table = table[DescSize:] {
		entry := decodePackedDesc(table)
		if entry.Flags&DescIndirect != 0 {
			d.Fail("indirect flags", "a table within a table", uint64(entry.Flags))
			return 0
		}
		if d.readTables {
			entry.Flags &^= DescWrite
		}
		if !d.put(pieces, n, entry) {
			return 0
		}
		n++
	}
	return n
}

// decodePackedDesc reads a descriptor of a table, which may stand at any
// address. Its id says nothing there (section 2.8.7).
func decodePackedDesc(b []byte) Desc {
	_ = b[DescSize-1]
	return Desc{
		Addr:  binary.LittleEndian.Uint64(b),
		Len:   binary.LittleEndian.Uint32(b[8:]),
		Flags: binary.LittleEndian.Uint16(b[14:]),
	}
}

// Return puts the last n chains that were taken back.
func (d *PackedDevice) Return(n int) {
	for range n {
		if d.takes--; d.takes < 0 {
			d.takes = d.size - 1
		}
		id := d.order[d.takes]
		slots := int(d.length[id])
		d.length[id] = 0
		d.taken -= slots
		d.next.move(-slots, d.size)
	}
}

// Complete gives chains back; see Device.
func (d *PackedDevice) Complete(done []Completion) {
	at, length := d.done, d.length
	old := len(d.burst)
	d.burst = d.burst[:old+len(done)]
	burst := d.burst[old:]
	flags := at.usedFlags()
	for i := range done {
		id := done[i].Head
		u := &burst[i]
		u.Offset, u.ID, u.Flags, u.Len = uint16(at.offset), id, flags, done[i].Len
		if u.Len > 0 {
			u.Flags |= DescWrite // the length counts
		}
		slots := int(length[id])
		length[id] = 0
		if at.offset += slots; at.offset >= d.size {
			at = place{offset: at.offset - d.size, wrap: !at.wrap}
			flags = at.usedFlags()
		}
	}
	d.done = at
}

// usedFlags are those of a used descriptor there.
func (p place) usedFlags() uint16 {
	if p.wrap {
		return packedAvail | packedUsed
	}
	return 0
}

// Flush shows the driver everything completed; see Device.
func (d *PackedDevice) Flush() (interrupt bool) {
	if len(d.burst) == 0 {
		return false
	}
	if d.journal != nil {
		d.journal.Begin(d.burst, d.done.position())
	}
	// Its last store is the fence between showing and looking.
	writeUsed(d.areas.desc, d.burst)
	d.burst = d.burst[:0]
	if d.journal != nil {
		d.journal.Commit()
	}
	old := d.flushed
	d.flushed = d.done
	d.taken -= d.done.since(old, d.size)
	event := d.areas.driverEvent.Load()
	switch uint16(event>>16) & 3 {
	case eventDisable:
		return false
	case eventDesc:
		return !d.eventIdx || placeAt(uint16(event)).since(old, d.size) < d.done.since(old, d.size)
	default:
		return true
	}
}

// Notify says whether the driver shall notify the device; see Device.
func (d *PackedDevice) Notify(on bool) {
	event := uint32(eventDisable) << 16
	switch {
	case on && d.eventIdx:
		event = uint32(eventDesc)<<16 | uint32(d.next.position())
	case on:
		event = uint32(eventEnable) << 16
	}
	// Only the device writes the word: what stands there is its own.
	if d.areas.deviceEvent.Load() != event {
		d.areas.deviceEvent.Swap(event)
	}
}
