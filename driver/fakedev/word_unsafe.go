package fakedev

import (
	"sync/atomic"
	"unsafe"
)

// word is the 32-bit word at an offset of a ring area. Areas are aligned to 4
// bytes and the offsets in use are multiples of it: the driver's layout says so.
func word(area []byte, offset int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&area[offset : offset+4][0]))
}
