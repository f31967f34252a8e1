package fakedev

import (
	"sync/atomic"
	"unsafe"
)

// word is the flags and index word at the start of a ring area. The area is
// aligned to 4 bytes: the driver's layout says so.
func word(area []byte) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(area)))
}
