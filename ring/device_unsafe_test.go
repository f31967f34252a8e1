package ring

import "unsafe"

// wordBytes views words as bytes: memory aligned to 8.
func wordBytes(words []uint64) []byte {
	// The bytes are those of the same array.
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}
