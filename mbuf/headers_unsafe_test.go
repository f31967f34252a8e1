package mbuf

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The pages of new Bufs are there before anybody touches them.
func TestPagesOfNewBufs(t *testing.T) {
	page := os.Getpagesize()
	probe, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(probe)
	if err := unix.Madvise(probe, unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("MADV_POPULATE_WRITE: %v", err)
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
		resident := make([]byte, whole+1)
		if whole == 0 {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, at, uintptr(whole*page), uintptr(unsafe.Pointer(&resident[0]))); errno != 0 {
			t.Fatal(errno)
		}
		for i, r := range resident[:whole] {
			if r&1 == 0 {
				t.Errorf("%d Bufs: page %d of %d is missing", n, i, whole)
				break
			}
		}
	}
}
