package mbuf

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// physicalRegions splits a populated region of hugepages into runs that are
// contiguous in physical memory, each with its physical address.
func physicalRegions(whole Region) ([]Region, error) {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, fmt.Errorf("mbuf: physical addresses: %w", err)
	}
	defer pagemap.Close()

	var runs []Region
	for off := 0; off < len(whole.Bytes); off += whole.PageSize {
		page := whole.Bytes[off : off+whole.PageSize]
		pa, err := physicalAddr(pagemap, addrOf(page))
		if err != nil {
			return nil, err
		}
		if n := len(runs); n > 0 && runs[n-1].IOVA+uint64(len(runs[n-1].Bytes)) == pa {
			last := &runs[n-1]
			last.Bytes = whole.Bytes[last.Offset : off+whole.PageSize]
			continue
		}
		runs = append(runs, Region{Bytes: page, IOVA: pa, FD: whole.FD, Offset: int64(off), PageSize: whole.PageSize})
	}
	return runs, nil
}

// Fields of a /proc/PID/pagemap entry.
const (
	pagemapPresent  = 1 << 63
	pagemapFrameMax = 1<<55 - 1
)

// physicalAddr looks the page at va up; the page is present and does not
// move, being a hugepage.
func physicalAddr(pagemap *os.File, va uintptr) (uint64, error) {
	small := uintptr(unix.Getpagesize())
	var entry [8]byte
	if _, err := pagemap.ReadAt(entry[:], int64(va/small)*8); err != nil {
		return 0, fmt.Errorf("mbuf: read /proc/self/pagemap: %w", err)
	}
	e := binary.LittleEndian.Uint64(entry[:])
	frame := e & pagemapFrameMax
	if e&pagemapPresent == 0 || frame == 0 {
		return 0, fmt.Errorf("mbuf: the kernel does not show physical addresses: run as root or with CAP_SYS_ADMIN")
	}
	return frame*uint64(small) + uint64(va%small), nil
}
