package mbuf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newBufs makes n Bufs on pages that are there, of which the kernel adds many in one
// call. That they are missing would be found out page by page otherwise, which under
// some hypervisors takes longer than all else of a start, and of a packet's way.
func newBufs(n int) []Buf {
	bufs := make([]Buf, n)
	page := uintptr(unix.Getpagesize())
	// Only the address counts, and the heap moves nothing that is on it.
	first := uintptr(unsafe.Pointer(unsafe.SliceData(bufs)))
	skip, end := -first%page, uintptr(n)*unsafe.Sizeof(Buf{})
	if size := (end - min(skip, end)) / page * page; size > 0 {
		// The bytes of whole pages within bufs, which the kernel reads and writes back.
		pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(bufs)), skip)), size)
		_ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE) // Linux before 5.14 has it not: they come when touched
	}
	return bufs
}
