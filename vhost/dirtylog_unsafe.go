package vhost

import "unsafe"

// logWords is a view of b, whose length and address are multiples of 4, as
// numbers: on a little-endian machine their bits are in the order of the bytes'.
func logWords(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
