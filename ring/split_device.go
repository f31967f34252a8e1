package ring

import "errors"

// SplitDevice is the device's side of a split virtqueue (virtio 1.2, section
// 2.7). It is a Device.
type SplitDevice struct {
	rules
	areas    splitAreas
	eventIdx bool
	mask     uint16
	flags    uint16 // of the used word

	// The available ring: entries below seen are known to be there, those
	// below next were taken.
	seen, next uint16

	// The used ring: entries below done are written, those below flushed are
	// the driver's.
	done, flushed uint16
}

// NewSplitDevice makes the device's side of a virtqueue of size descriptors
// over the three areas that the driver laid out, each at least as long as
// SplitLayout says; without EVENT_IDX the event words may be missing.
//
// The device starts where the used ring ends. For a fresh ring that is 0; after
// a device that went away without a farewell it is what that one has left
// unfinished.
func NewSplitDevice(size int, desc, avail, used []byte, opts DeviceOptions) (*SplitDevice, error) {
	l, err := NewSplitLayout(size)
	if err != nil {
		return nil, err
	}
	if err := checkDeviceAreas(size, desc, avail, used, l.DescLen(), 4+2*size, 4+usedElemSize*size); err != nil {
		return nil, err
	}
	d := &SplitDevice{
		rules:    rules{translate: opts.Translate, size: size},
		areas:    viewSplit(l, desc, avail, used),
		eventIdx: opts.EventIdx,
		mask:     uint16(size - 1),
	}
	if d.eventIdx && d.areas.usedEvent == nil {
		return nil, errors.New("ring: the areas end before the event words of EVENT_IDX")
	}
	start := uint16(d.areas.usedWord.Load() >> 16)
	d.seen, d.next, d.done, d.flushed = start, start, start, start
	d.publish()
	d.Notify(true)
	return d, nil
}

// UsedIndex reads the used index out of the used area of a split virtqueue,
// which is aligned to 4: where a device that is gone has left it.
func UsedIndex(used []byte) uint16 { return uint16(word(used, 0).Load() >> 16) }

// Base is the index of the first available entry that was not taken.
func (d *SplitDevice) Base() uint32 { return uint32(d.next) }

// Pending is the number of chains to take. It looks at the shared index only
// when none was known before.
func (d *SplitDevice) Pending() int { return d.pending(1) }

// pending looks at the shared index only when fewer than want chains are known.
func (d *SplitDevice) pending(want int) int {
	if d.err != nil {
		return 0
	}
	if int(d.seen-d.next) < want {
		d.look()
	}
	return int(d.seen - d.next)
}

// look reads the shared index.
func (d *SplitDevice) look() {
	idx := uint16(d.areas.availWord.Load() >> 16)
	if idx-d.next > d.mask+1 {
		d.Fail("available index", "it moved by more than the size of the virtqueue", uint64(idx))
		return
	}
	d.seen = idx
}

// Take takes chains; see Device.
func (d *SplitDevice) Take(chains []Chain, pieces []Piece) int {
	chains = chains[:min(d.pending(len(chains)), len(chains))]
	descs, avail, mask := d.areas.desc, d.areas.avail, d.mask
	used := 0
	for i := range chains {
		head := avail[d.next&mask]
		if head > mask {
			d.Fail("available entry", "it is not a descriptor of this queue", uint64(head))
			return i
		}
		n := 1
		// Every descriptor is read once: the driver may change it meanwhile.
		if desc := descs[head]; desc.Flags&(DescNext|DescIndirect) == 0 && used < len(pieces) {
			pieces[used] = Piece{Addr: desc.Addr, Len: desc.Len, Write: desc.Flags&DescWrite != 0}
		} else if n = d.walk(head, desc, pieces[used:]); n == 0 {
			return d.tooLong(i, pieces)
		}
		chains[i] = Chain{Head: head, Pieces: uint16(n)}
		used += n
		d.next++
	}
	return len(chains)
}

// Return puts the last n chains that were taken back, to be taken again.
func (d *SplitDevice) Return(n int) { d.next -= uint16(n) }

// walk copies the chain of head, which starts with desc, into pieces, and gives
// their number, or 0.
func (d *SplitDevice) walk(head uint16, desc Desc, pieces []Piece) (n int) {
	for {
		if desc.Flags&DescIndirect != 0 {
			return d.walkTable(desc, pieces, n)
		}
		if !d.put(pieces, n, desc) {
			return 0
		}
		n++
		if desc.Flags&DescNext == 0 {
			return n
		}
		if n > int(d.mask) {
			d.Fail("descriptor", "its chain is longer than the virtqueue, or a loop", uint64(head))
			return 0
		}
		if desc.Next > d.mask {
			d.Fail("next descriptor", "it is not a descriptor of this queue", uint64(desc.Next))
			return 0
		}
		desc = d.areas.desc[desc.Next]
	}
}

// walkTable goes on in a table of indirect descriptors (section 2.7.5.3); n
// pieces came before it.
func (d *SplitDevice) walkTable(at Desc, pieces []Piece, n int) int {
	table, ok := d.table(at)
	if !ok {
		return 0
	}
	entries := uint32(len(table) / DescSize)
	for id, steps := uint32(0), uint32(0); ; steps++ {
		if steps == entries {
			d.Fail("indirect descriptor", "its chain is a loop", uint64(id))
			return 0
		}
		desc := decodeDesc(table[id*DescSize:])
		if desc.Flags&DescIndirect != 0 {
			d.Fail("indirect flags", "a table within a table", uint64(desc.Flags))
			return 0
		}
		if !d.put(pieces, n, desc) {
			return 0
		}
		n++
		if desc.Flags&DescNext == 0 {
			return n
		}
		if id = uint32(desc.Next); id >= entries {
			d.Fail("next indirect descriptor", "it is outside the table", uint64(id))
			return 0
		}
	}
}

// Complete gives chains back; see Device. An entry is written only when it
// changes, which spares the driver a cache miss: it does not where the driver
// uses its heads in a circle and the device writes nothing.
func (d *SplitDevice) Complete(done []Completion) {
	used, mask := d.areas.used, d.mask
	for i := range done {
		e := UsedElem{ID: uint32(done[i].Head), Len: done[i].Len}
		if slot := &used[d.done&mask]; *slot != e {
			*slot = e
		}
		d.done++
	}
}

// Flush shows the driver everything completed; see Device.
func (d *SplitDevice) Flush() (interrupt bool) {
	old := d.flushed
	if d.done == old {
		return false
	}
	d.flushed = d.done
	// The store of the used word is the fence between showing and looking.
	d.publish()
	if d.eventIdx {
		return needEvent(d.areas.wantedUsedEvent(), d.flushed, old)
	}
	return uint16(d.areas.availWord.Load())&AvailNoInterrupt == 0
}

// Notify says whether the driver shall notify the device; see Device. Under
// EVENT_IDX there is no way to say never: the event that has passed stays where
// it is.
func (d *SplitDevice) Notify(on bool) {
	if d.eventIdx {
		if on {
			d.areas.availEvent.Swap(uint32(d.next))
		}
		return
	}
	flags := UsedNoNotify
	if on {
		flags = 0
	}
	if flags == d.flags {
		return
	}
	d.flags = flags
	d.publish()
}

func (d *SplitDevice) publish() {
	d.areas.usedWord.Swap(uint32(d.flushed)<<16 | uint32(d.flags))
}
