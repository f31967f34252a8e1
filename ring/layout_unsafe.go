package ring

import (
	"sync/atomic"
	"unsafe"
)

// splitAreas are typed views of the three areas of a split virtqueue.
type splitAreas struct {
	desc      []Desc
	availWord *atomic.Uint32 // flags | idx<<16, written by the driver
	avail     []uint16
	usedWord  *atomic.Uint32 // flags | idx<<16, written by the device
	used      []UsedElem

	// The words of EVENT_IDX (virtio 1.2, section 2.7.7); nil where the areas
	// end before them. In a ring of one descriptor the 16 bits of used_event
	// are the upper half of their word.
	usedEvent      *atomic.Uint32 // written by the driver
	usedEventShift int
	availEvent     *atomic.Uint32 // written by the device
}

// viewSplit makes the views. The areas are at least as long as l says, or end
// before the event words, and are aligned as it says; both were checked by the
// caller.
func viewSplit(l SplitLayout, desc, avail, used []byte) splitAreas {
	a := splitAreas{
		// desc holds l.Size descriptors of DescSize bytes.
		desc: unsafe.Slice((*Desc)(unsafe.Pointer(unsafe.SliceData(desc))), l.Size),
		// Both words are the first four bytes of a 4-byte aligned area.
		availWord: word(avail, 0),
		usedWord:  word(used, 0),
		// The ring entries follow the word.
		avail: unsafe.Slice((*uint16)(unsafe.Pointer(&avail[4])), l.Size),
		used:  unsafe.Slice((*UsedElem)(unsafe.Pointer(&used[4])), l.Size),
	}
	if len(avail) >= l.AvailLen && len(used) >= l.UsedLen {
		at := 4 + 2*l.Size
		a.usedEventShift = at % 4 * 8
		a.usedEvent = word(avail, at&^3)
		a.availEvent = word(used, 4+usedElemSize*l.Size)
	}
	return a
}

// word is the 32-bit word at an offset that is a multiple of 4 in a 4-byte
// aligned area, which is long enough.
func word(area []byte, offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&area[offset : offset+4][0]))
}

// setUsedEvent asks the device for an interrupt when its used index passes
// event. The rest of the word is padding, or the entry 0 of a ring of one.
func (a *splitAreas) setUsedEvent(event uint16) {
	a.usedEvent.Store(uint32(event) << a.usedEventShift)
}

// packedAreas are typed views of the three areas of a packed virtqueue.
type packedAreas struct {
	desc        []packedDesc
	driverEvent *atomic.Uint32 // offset and wrap | flags<<16, written by the driver
	deviceEvent *atomic.Uint32 // the same, written by the device
}

// viewPacked makes the views; lengths and alignment were checked.
func viewPacked(l PackedLayout, desc, driver, device []byte) packedAreas {
	return packedAreas{
		// desc holds l.Size descriptors of DescSize bytes.
		desc:        unsafe.Slice((*packedDesc)(unsafe.Pointer(unsafe.SliceData(desc))), l.Size),
		driverEvent: word(driver, 0),
		deviceEvent: word(device, 0),
	}
}

// viewIndirect makes both views of the indirect tables; size and alignment were
// checked.
func viewIndirect(size int, opts Options) indirectTables {
	base, n := unsafe.Pointer(unsafe.SliceData(opts.Indirect)), size*IndirectEntries
	return indirectTables{
		splitDescs:  unsafe.Slice((*Desc)(base), n),
		packedDescs: unsafe.Slice((*packedDesc)(base), n),
		iova:        opts.IndirectIOVA,
	}
}
