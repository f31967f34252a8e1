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
func (d *SplitDevice) Pending() int {
	if d.err != nil {
		return 0
	}
	if d.seen == d.next {
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

// Take takes the next chain; see Device.
func (d *SplitDevice) Take(pieces []Piece) (head uint16, n int, ok bool) {
	if d.Pending() == 0 {
		return 0, 0, false
	}
	head = d.areas.avail[d.next&d.mask]
	if head > d.mask {
		d.Fail("available entry", "it is not a descriptor of this queue", uint64(head))
		return 0, 0, false
	}
	n, ok = d.walk(head, pieces)
	if ok {
		d.next++
	}
	return head, n, ok
}

// Return puts the last n chains that were taken back, to be taken again.
func (d *SplitDevice) Return(n int) { d.next -= uint16(n) }

// walk copies the chain of head into pieces. Every descriptor is read once.
func (d *SplitDevice) walk(head uint16, pieces []Piece) (n int, ok bool) {
	for id := head; ; {
		desc := d.areas.desc[id]
		if desc.Flags&DescIndirect != 0 {
			return d.walkTable(desc, pieces, n)
		}
		if !d.put(pieces, n, desc) {
			return 0, false
		}
		n++
		if desc.Flags&DescNext == 0 {
			return n, true
		}
		if n > int(d.mask) {
			return 0, d.Fail("descriptor", "its chain is longer than the virtqueue, or a loop", uint64(head))
		}
		if id = desc.Next; id > d.mask {
			return 0, d.Fail("next descriptor", "it is not a descriptor of this queue", uint64(id))
		}
	}
}

// walkTable goes on in a table of indirect descriptors (section 2.7.5.3); n
// pieces came before it.
func (d *SplitDevice) walkTable(at Desc, pieces []Piece, n int) (int, bool) {
	table, ok := d.table(at)
	if !ok {
		return 0, false
	}
	entries := uint32(len(table) / DescSize)
	for id, steps := uint32(0), uint32(0); ; steps++ {
		if steps == entries {
			return 0, d.Fail("indirect descriptor", "its chain is a loop", uint64(id))
		}
		desc := decodeDesc(table[id*DescSize:])
		if desc.Flags&DescIndirect != 0 {
			return 0, d.Fail("indirect flags", "a table within a table", uint64(desc.Flags))
		}
		if !d.put(pieces, n, desc) {
			return 0, false
		}
		n++
		if desc.Flags&DescNext == 0 {
			return n, true
		}
		if id = uint32(desc.Next); id >= entries {
			return 0, d.Fail("next indirect descriptor", "it is outside the table", uint64(id))
		}
	}
}

// Complete gives the chain of head back; see Device.
func (d *SplitDevice) Complete(head uint16, written uint32) {
	d.areas.used[d.done&d.mask] = UsedElem{ID: uint32(head), Len: written}
	d.done++
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
			d.areas.availEvent.Store(uint32(d.next))
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
	d.areas.usedWord.Store(uint32(d.flushed)<<16 | uint32(d.flags))
}
