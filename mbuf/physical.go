package mbuf

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// physicalRegions splits a populated region of hugepages into runs that are
// contiguous in physical memory, each with its physical address.
func physicalRegions(whole Region) ([]Region, error) {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, fmt.Errorf("physical addresses: %w: %s", err, hiddenReason())
	}
	defer pagemap.Close()

	addresses := make([]uint64, len(whole.Bytes)/whole.PageSize)
	for i := range addresses {
		if addresses[i], err = physicalAddr(pagemap, whole.Addr()+uintptr(i*whole.PageSize)); err != nil {
			return nil, err
		}
	}
	return fuse(whole, addresses), nil
}

// fuse makes regions of the pages of whole, given their addresses in order:
// neighbours that are so in device addresses too become one.
func fuse(whole Region, addresses []uint64) []Region {
	var runs []Region
	for i, address := range addresses {
		start, end := i*whole.PageSize, (i+1)*whole.PageSize
		if n := len(runs); n > 0 && runs[n-1].end() == address {
			last := &runs[n-1]
			from := last.Offset - whole.Offset
			last.Bytes = whole.Bytes[from:end:end]
			continue
		}
		runs = append(runs, Region{Bytes: whole.Bytes[start:end:end], IOVA: address, FD: whole.FD, Offset: whole.Offset + int64(start), PageSize: whole.PageSize})
	}
	return runs
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
		return 0, fmt.Errorf("read /proc/self/pagemap: %w", err)
	}
	e := binary.LittleEndian.Uint64(entry[:])
	frame := e & pagemapFrameMax
	if e&pagemapPresent == 0 || frame == 0 {
		return 0, fmt.Errorf("the kernel hides physical addresses from this process: %s", hiddenReason())
	}
	return frame*uint64(small) + uint64(va%small), nil
}

// hiddenReason says what a process lacks that can't read physical addresses.
// The page map of a program with file capabilities belongs to root, so that
// opening it takes one capability and seeing frame numbers in it another.
func hiddenReason() string {
	var missing []string
	for _, c := range []struct {
		bit  int
		name string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"}} {
		if !hasCapability(c.bit) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return "it has CAP_SYS_ADMIN in its container, and needs it outside"
	}
	return "it lacks " + strings.Join(missing, " and ") + ": run as root, or give the program these capabilities with setcap"
}

// hasCapability reports whether a capability is in effect for the calling
// thread.
func hasCapability(bit int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // version 3 fills two words of each set
	if unix.Capget(&header, &sets[0]) != nil {
		return false
	}
	return sets[bit/32].Effective>>(bit%32)&1 == 1
}
