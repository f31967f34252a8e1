package mbuf

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const cacheLine = 64

// ErrNoMemory is wrapped by errors of a Memory that is used up.
var ErrNoMemory = errors.New("not enough device memory")

// IOVAMode says where the device addresses of a Memory come from.
type IOVAMode int

const (
	// IOVAVirtual uses the process's own virtual addresses; for vhost-user.
	IOVAVirtual IOVAMode = iota
	// IOVARanges picks addresses from ranges that an IOMMU can translate.
	IOVARanges
	// IOVAPhysical uses physical addresses, for a device that bypasses the
	// IOMMU or has none. It takes hugepages and the right to read
	// /proc/self/pagemap.
	IOVAPhysical
)

// String gives the mode's name as --iova-mode takes it: "va", "ranges" or
// "pa".
func (m IOVAMode) String() string {
	switch m {
	case IOVAVirtual:
		return "va"
	case IOVARanges:
		return "ranges"
	default:
		return "pa"
	}
}

// AddrRange is a range of device addresses, both ends included.
type AddrRange struct{ First, Last uint64 }

// MemoryConfig says how a Memory is made.
type MemoryConfig struct {
	Size   int         // bytes, rounded up to whole pages
	NoHuge bool        // plain pages even where hugepages are free
	IOVA   IOVAMode    //
	Ranges []AddrRange // usable device addresses, for IOVARanges
}

// Region is one contiguous piece of a Memory: contiguous in the process, in
// its file and in device addresses.
type Region struct {
	Bytes    []byte
	IOVA     uint64
	FD       int // the memory file; it belongs to the Memory
	Offset   int64
	PageSize int
}

// Zone is a piece of a region handed out by Alloc.
type Zone struct {
	Bytes []byte
	IOVA  uint64
}

// Slice is the part of z that starts at off and is n bytes long.
func (z Zone) Slice(off, n int) Zone {
	return Zone{Bytes: z.Bytes[off : off+n : off+n], IOVA: z.IOVA + uint64(off)}
}

// Memory is memory that devices may reach. It is backed by a file that can be
// handed to another process (vhost-user), in hugepages or plain pages, and
// every byte of it has a device address. Its methods may be called from any
// goroutine.
type Memory struct {
	mu       sync.Mutex
	mode     IOVAMode
	pageSize int
	mapping  []byte
	fd       int
	regions  []Region
	used     []int  // bytes handed out from the front of each region
	freed    []Zone // zones given back, to be used again
}

// hugePageSize is the size asked for; it is the usual one of amd64 and arm64.
const hugePageSize = 2 << 20

// NewMemory makes a Memory of at least cfg.Size bytes. It takes hugepages of
// 2 MiB where enough are free and plain pages otherwise; plain pages are not
// touched, so that unused memory costs nothing.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if cfg.Size <= 0 {
		return nil, fmt.Errorf("mbuf: memory of %d bytes: must be more than 0", cfg.Size)
	}
	m := &Memory{mode: cfg.IOVA, fd: -1}
	err := errors.New("hugepages were switched off")
	if !cfg.NoHuge {
		err = m.mapFile(cfg.Size, hugePageSize)
	}
	if err != nil {
		if cfg.IOVA == IOVAPhysical {
			return nil, fmt.Errorf("mbuf: physical addresses need %d free hugepages (%w): write that number to /proc/sys/vm/nr_hugepages", roundUp(cfg.Size, hugePageSize)/hugePageSize, err)
		}
		if err = m.mapFile(cfg.Size, unix.Getpagesize()); err != nil {
			return nil, fmt.Errorf("mbuf: %d bytes of memory: %w: lower -m or --total-num-mbufs", cfg.Size, err)
		}
	}
	if err := m.assignIOVA(cfg.Ranges); err != nil {
		m.Close()
		return nil, err
	}
	m.used = make([]int, len(m.regions))
	return m, nil
}

// mapFile makes the memory file and maps it.
func (m *Memory) mapFile(size, pageSize int) error {
	memfd, flags := unix.MFD_CLOEXEC, unix.MAP_SHARED
	if pageSize == hugePageSize {
		memfd |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
		flags |= unix.MAP_POPULATE
	}
	fd, err := unix.MemfdCreate("vionet", memfd)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	size = roundUp(size, pageSize)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		unix.Close(fd)
		return fmt.Errorf("ftruncate: %w", err)
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("mmap: %w", err)
	}
	m.fd, m.mapping, m.pageSize = fd, b, pageSize
	return nil
}

// assignIOVA splits the mapping into regions and gives each its address.
func (m *Memory) assignIOVA(ranges []AddrRange) error {
	whole := Region{Bytes: m.mapping, FD: m.fd, PageSize: m.pageSize}
	switch m.mode {
	case IOVAVirtual:
		whole.IOVA = uint64(addrOf(m.mapping))
	case IOVARanges:
		iova, err := pickIOVA(ranges, uint64(len(m.mapping)), uint64(m.pageSize))
		if err != nil {
			return err
		}
		whole.IOVA = iova
	case IOVAPhysical:
		regions, err := physicalRegions(whole)
		if err != nil {
			return err
		}
		m.regions = regions
		return nil
	}
	m.regions = []Region{whole}
	return nil
}

// lowIOVA is where the search for device addresses starts: above the 32-bit
// addresses, where the windows for interrupts and memory-mapped registers
// are. Only an IOMMU too narrow for that gets a lower address.
const lowIOVA = 4 << 30

// pickIOVA finds size bytes, aligned to align, within one of the ranges.
func pickIOVA(ranges []AddrRange, size, align uint64) (uint64, error) {
	for _, floor := range []uint64{lowIOVA, align} {
		for _, r := range ranges {
			first := max(r.First, floor)
			first = (first + align - 1) &^ (align - 1)
			if first >= r.First && first <= r.Last && r.Last-first >= size-1 {
				return first, nil
			}
		}
	}
	return 0, fmt.Errorf("mbuf: no %d contiguous bytes in the device addresses that the IOMMU can translate (%d ranges): lower -m", size, len(ranges))
}

// Regions lists the memory for a transport to map. The slice is the caller's.
func (m *Memory) Regions() []Region { return slices.Clone(m.regions) }

// Mode says where the device addresses come from.
func (m *Memory) Mode() IOVAMode { return m.mode }

// PageSize is the size in bytes of the pages under the memory.
func (m *Memory) PageSize() int { return m.pageSize }

// maxAlloc is the largest allocation that is sure to be contiguous, or 0 when
// there is no limit but the memory's size.
func (m *Memory) maxAlloc() int {
	if m.mode == IOVAPhysical {
		return m.pageSize
	}
	return 0
}

// Alloc hands out size zeroed bytes whose address is a multiple of align, a
// power of two up to the page size. The error wraps ErrNoMemory when nothing
// that large is left.
func (m *Memory) Alloc(size, align int) (Zone, error) {
	if size <= 0 || align <= 0 || align&(align-1) != 0 || align > m.pageSize {
		return Zone{}, fmt.Errorf("mbuf: allocation of %d bytes aligned to %d: sizes must be positive, alignments powers of two up to a page", size, align)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, z := range m.freed {
		if len(z.Bytes) >= size && len(z.Bytes) <= 2*size && z.IOVA&uint64(align-1) == 0 {
			m.freed = slices.Delete(m.freed, i, i+1)
			clear(z.Bytes)
			z.Bytes = z.Bytes[:size]
			return z, nil
		}
	}
	for i, r := range m.regions {
		start := roundUp(m.used[i], align)
		if start+size <= len(r.Bytes) {
			m.used[i] = start + size
			return Zone{Bytes: r.Bytes[start : start+size : start+size], IOVA: r.IOVA + uint64(start)}, nil
		}
	}
	return Zone{}, fmt.Errorf("%w: %d bytes wanted of %d in all: raise -m or lower --total-num-mbufs", ErrNoMemory, size, len(m.mapping))
}

// Free takes a zone back for a later Alloc of about its size. The caller, and
// every device, must be done with it.
func (m *Memory) Free(z Zone) {
	if z.Bytes == nil {
		return
	}
	m.mu.Lock()
	m.freed = append(m.freed, Zone{Bytes: z.Bytes[:cap(z.Bytes)], IOVA: z.IOVA})
	m.mu.Unlock()
}

// Close unmaps the memory. No device and no buffer may use it any more. A
// second call does nothing.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mapping == nil {
		return nil
	}
	err := unix.Munmap(m.mapping)
	unix.Close(m.fd)
	m.mapping, m.regions, m.used, m.freed, m.fd = nil, nil, nil, nil, -1
	return err
}

func roundUp(n, align int) int { return (n + align - 1) / align * align }
