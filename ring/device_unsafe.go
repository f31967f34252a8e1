package ring

import "unsafe"

// aligned reports whether b, which is not empty, starts at a multiple of n.
func aligned(b []byte, n uintptr) bool {
	// Only the number is looked at; no pointer is made from it.
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%n == 0
}

// wantedUsedEvent is the used index whose passing the driver wants an interrupt
// for.
func (a *splitAreas) wantedUsedEvent() uint16 {
	return uint16(a.usedEvent.Load() >> a.usedEventShift)
}

// viewPackedDescs makes a typed view of the descriptors of a packed virtqueue,
// whose length and alignment were checked.
func viewPackedDescs(l PackedLayout, desc []byte) []packedDesc {
	return unsafe.Slice((*packedDesc)(unsafe.Pointer(unsafe.SliceData(desc))), l.Size)
}
