package ring

import (
	"encoding/binary"
	"fmt"
)

// Piece is one descriptor of a chain as the device sees it: Len bytes at the
// device address Addr, for the device to write, or else to read.
type Piece struct {
	Addr  uint64
	Len   uint32
	Write bool
}

// Translate gives the n bytes at a device address, or false when they do not
// all lie in memory that the driver shares. It must not keep the address.
type Translate func(addr uint64, n uint32) ([]byte, bool)

// SplitDevice is the device's side of a split virtqueue (virtio 1.2, section
// 2.7). One goroutine at a time owns it.
//
// Take hands out the chains that the driver made available, in order; Complete
// gives them back; Flush shows a whole burst of completions with one store.
type SplitDevice struct {
	areas     splitAreas
	translate Translate
	mask      uint16
	flags     uint16 // of the used word

	// The available ring: entries below seen are known to be there, those
	// below next were taken.
	seen, next uint16

	// The used ring: entries below done are written, those below flushed are
	// the driver's.
	done, flushed uint16

	err error
}

// NewSplitDevice makes the device's side of a virtqueue of size descriptors
// over the three areas that the driver laid out, each at least as long as
// SplitLayout says without its event words. translate is for the tables of
// indirect descriptors.
//
// The device starts where the used ring ends. For a fresh ring that is 0; after
// a device that went away without a farewell it is what that one has left
// unfinished.
func NewSplitDevice(size int, desc, avail, used []byte, translate Translate) (*SplitDevice, error) {
	l, err := NewSplitLayout(size)
	if err != nil {
		return nil, err
	}
	if len(desc) < l.DescLen() || len(avail) < 4+2*size || len(used) < 4+usedElemSize*size {
		return nil, fmt.Errorf("ring: areas of %d, %d and %d bytes are too short for %d descriptors", len(desc), len(avail), len(used), size)
	}
	if !aligned(desc, DescSize) || !aligned(avail, 4) || !aligned(used, 4) {
		return nil, fmt.Errorf("ring: misaligned area: descriptors need 16 bytes, the available and the used ring 4")
	}
	d := &SplitDevice{areas: viewSplit(l, desc, avail, used), translate: translate, mask: uint16(size - 1)}
	start := uint16(d.areas.usedWord.Load() >> 16)
	d.seen, d.next, d.done, d.flushed = start, start, start, start
	d.publish()
	return d, nil
}

// Err is nil, or the rule that the driver broke; it is a *RuleError. No chain
// is handed out any more.
func (d *SplitDevice) Err() error { return d.err }

// Next is the index of the first available entry that was not taken: where
// another device would go on.
func (d *SplitDevice) Next() uint16 { return d.next }

// Size is the number of descriptors.
func (d *SplitDevice) Size() int { return int(d.mask) + 1 }

// Pending is the number of chains to take; 0 after a broken rule. It looks at
// the shared index only when none was known before.
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

// Take takes the next chain, spread over pieces, and returns its head and the
// number of pieces. It is false when there is none, or when the chain breaks a
// rule; a chain longer than pieces counts as broken.
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
	if at.Flags&DescNext != 0 {
		return 0, d.Fail("descriptor flags", "an indirect descriptor has no next one", uint64(at.Flags))
	}
	entries := at.Len / DescSize
	if at.Len%DescSize != 0 || entries == 0 || int64(entries) > int64(d.mask)+1 {
		return 0, d.Fail("indirect length", "it is not a table of 1 to as many descriptors as the virtqueue has", uint64(at.Len))
	}
	table, ok := d.translate(at.Addr, at.Len)
	if !ok {
		return 0, d.Fail("indirect address", "it is not in shared memory", at.Addr)
	}
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

// decodeDesc reads a descriptor of a table, which may stand at any address.
func decodeDesc(b []byte) Desc {
	_ = b[DescSize-1]
	return Desc{
		Addr:  binary.LittleEndian.Uint64(b),
		Len:   binary.LittleEndian.Uint32(b[8:]),
		Flags: binary.LittleEndian.Uint16(b[12:]),
		Next:  binary.LittleEndian.Uint16(b[14:]),
	}
}

// put stores piece n of a chain and checks that what the device reads comes
// before what it writes (section 2.7.4.2).
func (d *SplitDevice) put(pieces []Piece, n int, desc Desc) bool {
	if n >= len(pieces) {
		return d.Fail("chain length", "more pieces than this device takes in one go", uint64(n+1))
	}
	write := desc.Flags&DescWrite != 0
	if !write && n > 0 && pieces[n-1].Write {
		return d.Fail("descriptor flags", "a buffer to read behind one to write", uint64(desc.Flags))
	}
	pieces[n] = Piece{Addr: desc.Addr, Len: desc.Len, Write: write}
	return true
}

// Complete gives the chain of head back, with written bytes in it. The driver
// sees it after Flush.
func (d *SplitDevice) Complete(head uint16, written uint32) {
	d.areas.used[d.done&d.mask] = UsedElem{ID: uint32(head), Len: written}
	d.done++
}

// Flush shows the driver everything completed, and reports whether it wants
// an interrupt for that.
func (d *SplitDevice) Flush() (interrupt bool) {
	if d.done == d.flushed {
		return false
	}
	d.flushed = d.done
	d.publish()
	return uint16(d.areas.availWord.Load())&AvailNoInterrupt == 0
}

// Notify says whether the driver shall notify the device of new chains. Having
// switched it on, the device looks at Pending once more before it sleeps.
func (d *SplitDevice) Notify(on bool) {
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

// Fail makes the ring unusable because the driver broke a rule; the first
// broken rule is kept. It returns false, for the caller to return.
func (d *SplitDevice) Fail(field, rule string, got uint64) bool {
	if d.err == nil {
		d.err = &RuleError{Field: field, Rule: rule, Got: got}
	}
	return false
}
