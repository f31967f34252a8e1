package ring

import "sync/atomic"

// PackedDevice is the device's side of a packed virtqueue (virtio 1.2, section
// 2.8). It is a Device; heads are buffer ids.
type PackedDevice struct {
	rules
	areas    packedAreas
	eventIdx bool
	record   UsedRecord

	next place // of the next available descriptor
	put  place // of the next used descriptor

	// What was taken, in private memory: by buffer id how many descriptors its
	// chain has, 0 for one that was not taken; and the ids in the order in
	// which they were taken, in a circle.
	length []uint16
	order  []uint16
	takes  int
	taken  int // descriptors

	// A burst becomes used with its first descriptor, whose word is written
	// last: at first is the word to write there. It is -1 when nothing waits.
	first     int
	firstWord uint32
	flushed   place // of the next used descriptor at the last Flush
}

// UsedRecord remembers the position of the next used descriptor for a device
// that comes after this one: unlike a split virtqueue, a packed one does not
// show it.
type UsedRecord interface {
	// Begin comes before a Flush that moves the position to used, Commit after
	// it.
	Begin(used uint16)
	Commit()
}

// NewPackedDevice makes the device's side of a virtqueue of size descriptors
// over the three areas that the driver laid out, as long as PackedLayout says.
// record may be nil.
//
// The device starts at base, which is as Base gives it: at the next used
// descriptor, so that what a device that went away had taken but not used is
// served again. Where the upper 16 bits are 0, the lower ones hold for both. A
// fresh ring starts at FreshPacked.
func NewPackedDevice(size int, desc, driver, device []byte, base uint32, record UsedRecord, opts DeviceOptions) (*PackedDevice, error) {
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
		eventIdx: opts.EventIdx,
		record:   record,
		next:     start, put: start, flushed: start,
		length: make([]uint16, size),
		order:  make([]uint16, size),
		first:  -1,
	}
	d.Notify(true)
	return d, nil
}

// FreshPacked is the Base of a packed virtqueue that was never used: both wrap
// counters start as 1.
const FreshPacked uint32 = 1<<15 | 1<<31

// PackedAvailable reports whether the descriptor at a position of a packed
// virtqueue, an offset with the wrap counter in bit 15, waits for the device.
// desc is aligned to 16; a position behind its end is false.
func PackedAvailable(desc []byte, position uint16) bool {
	at := placeAt(position)
	if (at.offset+1)*DescSize > len(desc) {
		return false
	}
	return at.available(uint16(word(desc, at.offset*DescSize+12).Load() >> 16))
}

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
	return uint32(d.next.position()) | uint32(d.put.position())<<16
}

// Pending is 1 when there is a chain to take, or 0.
func (d *PackedDevice) Pending() int {
	if d.err == nil && d.next.available(d.flags(d.next)) {
		return 1
	}
	return 0
}

func (d *PackedDevice) flags(at place) uint16 {
	return uint16(atomic.LoadUint32(&d.areas.desc[at.offset].Word) >> 16)
}

// Take takes the next chain; see Device.
func (d *PackedDevice) Take(pieces []Piece) (id uint16, n int, ok bool) {
	if d.Pending() == 0 {
		return 0, 0, false
	}
	at, slots := d.next, 0
	for more := true; more; slots++ {
		if slots == d.size-d.taken {
			return 0, 0, d.Fail("descriptor", "more are available than the virtqueue has", uint64(at.offset))
		}
		e := &d.areas.desc[at.offset]
		word := atomic.LoadUint32(&e.Word)
		desc := Desc{Addr: e.Addr, Len: e.Len, Flags: uint16(word >> 16)}
		if !at.available(desc.Flags) {
			return 0, 0, d.Fail("descriptor flags", "a chain goes on where nothing is available", uint64(desc.Flags))
		}
		if n, ok = d.walk(desc, pieces, n); !ok {
			return 0, 0, false
		}
		id = uint16(word) // that of the last one is the chain's
		at.move(1, d.size)
		more = desc.Flags&DescNext != 0
	}
	if int(id) >= d.size {
		return 0, 0, d.Fail("buffer id", "it is not below the size of the queue", uint64(id))
	}
	if d.length[id] != 0 {
		return 0, 0, d.Fail("buffer id", "the driver gave it away and has not got it back", uint64(id))
	}
	d.length[id] = uint16(slots)
	d.order[d.takes] = id
	d.takes = int(around(d.takes+1, d.size))
	d.taken += slots
	d.next = at
	return id, n, true
}

// walk copies a descriptor, or the table that it points to, into pieces, where
// n came before it. Entries of a table follow each other without links.
func (d *PackedDevice) walk(desc Desc, pieces []Piece, n int) (int, bool) {
	if desc.Flags&DescIndirect == 0 {
		return n + 1, d.rules.put(pieces, n, desc)
	}
	table, ok := d.table(desc)
	if !ok {
		return 0, false
	}
	for ; len(table) > 0; table = table[DescSize:] {
		entry := decodeDesc(table)
		if entry.Flags&DescIndirect != 0 {
			return 0, d.Fail("indirect flags", "a table within a table", uint64(entry.Flags))
		}
		if !d.rules.put(pieces, n, entry) {
			return 0, false
		}
		n++
	}
	return n, true
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

// Complete gives the chain of a buffer id back; see Device.
func (d *PackedDevice) Complete(id uint16, written uint32) {
	flags := uint16(0)
	if d.put.wrap {
		flags = packedAvail | packedUsed
	}
	if written > 0 {
		flags |= DescWrite // the length counts
	}
	e := &d.areas.desc[d.put.offset]
	e.Len = written
	word := uint32(id) | uint32(flags)<<16
	if d.first < 0 {
		d.first, d.firstWord = d.put.offset, word
	} else {
		e.Word = word
	}
	slots := int(d.length[id])
	d.length[id] = 0
	d.taken -= slots
	d.put.move(slots, d.size)
}

// Flush shows the driver everything completed; see Device.
func (d *PackedDevice) Flush() (interrupt bool) {
	if d.first < 0 {
		return false
	}
	if d.record != nil {
		d.record.Begin(d.put.position())
	}
	// This store is the fence between showing and looking.
	atomic.StoreUint32(&d.areas.desc[d.first].Word, d.firstWord)
	d.first = -1
	if d.record != nil {
		d.record.Commit()
	}
	old := d.flushed
	d.flushed = d.put
	event := d.areas.driverEvent.Load()
	switch uint16(event >> 16) {
	case eventDisable:
		return false
	case eventDesc:
		return !d.eventIdx || placeAt(uint16(event)).since(old, d.size) < d.put.since(old, d.size)
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
		d.areas.deviceEvent.Store(event)
	}
}
