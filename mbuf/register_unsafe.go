package mbuf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapOver puts a file in place of what is mapped at b, which is whole pages
// outside the Go heap.
func mapOver(b []byte, fd int) error {
	// The address stays the same, so that every slice of b keeps its meaning.
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	return err
}
