package mbuf

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The pages of new Bufs are there before anybody touches them.
func TestPagesOfNewBufs(t *testing.T) {
	page := unix.Getpagesize()
	probe, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(probe)
	if err := unix.Madvise(probe, unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("MADV_POPULATE_WRITE: %v", err)
	}
	if missing(t, addrOf(probe), 1) > 0 {
		t.Skip("MADV_POPULATE_WRITE is accepted and does nothing, as in an emulator")
	}
	for _, n := range []int{1, 31, 32, 1000, 1 << 16} {
		bufs := newBufs(n)
		if len(bufs) != n {
			t.Fatalf("%d Bufs, want %d", len(bufs), n)
		}
		first := uintptr(unsafe.Pointer(&bufs[0]))
		end := first + uintptr(n)*unsafe.Sizeof(Buf{})
		at := (first + uintptr(page) - 1) / uintptr(page) * uintptr(page)
		whole := int(end-min(at, end)) / page
		if m := missing(t, at, whole); m > 0 {
			t.Errorf("%d Bufs: %d pages of %d are missing", n, m, whole)
		}
	}
}

// missing counts the pages from an address on that are not in memory.
func missing(t *testing.T, at uintptr, pages int) (n int) {
	if pages == 0 {
		return 0
	}
	resident := make([]byte, pages)
	// The kernel writes a byte for each page, and keeps no pointer.
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, at, uintptr(pages*unix.Getpagesize()), uintptr(unsafe.Pointer(&resident[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, r := range resident {
		if r&1 == 0 {
			n++
		}
	}
	return n
}
