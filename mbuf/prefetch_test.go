package mbuf

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Prefetching changes nothing, and is no access: slices that are empty, or end
// where the memory does, are as good as others.
func TestPrefetchTouchesNothing(t *testing.T) {
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Mprotect(mem[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	mem[page-1] = 7
	frames := [][]byte{nil, {}, mem[page-1 : page], mem[page:], mem[2*page:]}
	PrefetchRead(nil)
	PrefetchWrite(nil)
	PrefetchRead(frames)
	PrefetchWrite(frames)
	if mem[page-1] != 7 {
		t.Errorf("the last byte is %d, want 7", mem[page-1])
	}
}
