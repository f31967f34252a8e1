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
}

// viewSplit makes the views. The areas are at least as long as l says and
// aligned as it says; both were checked by the caller.
func viewSplit(l SplitLayout, desc, avail, used []byte) splitAreas {
	return splitAreas{
		// desc holds l.Size descriptors of DescSize bytes.
		desc: unsafe.Slice((*Desc)(unsafe.Pointer(unsafe.SliceData(desc))), l.Size),
		// Both words are the first four bytes of a 4-byte aligned area.
		availWord: (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(avail))),
		usedWord:  (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(used))),
		// The ring entries follow the word.
		avail: unsafe.Slice((*uint16)(unsafe.Pointer(&avail[4])), l.Size),
		used:  unsafe.Slice((*UsedElem)(unsafe.Pointer(&used[4])), l.Size),
	}
}
