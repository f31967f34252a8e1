package mbuf

import (
	"errors"
	"fmt"
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

// AnyNode is a node that nobody chose.
const AnyNode = -1

// NodeChoice says on which NUMA node memory lies. The zero value leaves it to
// the kernel.
type NodeChoice struct{ plusOne int }

// OnNode chooses the node with that number; AnyNode chooses none.
func OnNode(number int) NodeChoice { return NodeChoice{plusOne: number + 1} }

// number is the chosen node, or AnyNode.
func (c NodeChoice) number() int { return c.plusOne - 1 }

// MemoryConfig says how a Memory is made, and how what Grow adds is.
type MemoryConfig struct {
	Size int // bytes, rounded up to whole pages

	// PageSize is the size of the pages in bytes: that of plain pages, or one
	// of the hugepage sizes that the kernel has. 0 takes the best there is:
	// hugepages of 2 MiB, for 1 GiB and more those of 1 GiB, and plain pages
	// where neither are free and the addresses allow it.
	PageSize int
	NoHuge   bool // plain pages even where hugepages are free

	// Node is the NUMA node that the memory lies on. On a machine with one
	// node it changes nothing.
	Node NodeChoice

	IOVA   IOVAMode    // where device addresses come from
	Ranges []AddrRange // usable device addresses, for IOVARanges
}

// check finds out what no memory can be made with.
func (cfg MemoryConfig) check() error {
	plain := unix.Getpagesize()
	switch {
	case cfg.Size <= 0:
		return fmt.Errorf("memory of %d bytes: must be more than 0", cfg.Size)
	case cfg.PageSize < 0 || cfg.PageSize&(cfg.PageSize-1) != 0:
		return fmt.Errorf("pages of %d bytes: must be a power of two", cfg.PageSize)
	case cfg.NoHuge && cfg.PageSize > plain:
		return fmt.Errorf("pages of %d bytes, but hugepages were switched off", cfg.PageSize)
	case cfg.IOVA == IOVAPhysical && (cfg.NoHuge || cfg.PageSize == plain):
		return fmt.Errorf("physical addresses need hugepages, since plain pages move: leave --no-huge out, and set hugepages aside in %s", hugePageFile(hugePageSize, AnyNode))
	}
	return nil
}

// Region is one contiguous piece of a Memory: contiguous in the process, in
// its file and in device addresses.
type Region struct {
	Bytes    []byte // in the process
	IOVA     uint64 // device address of the first byte
	FD       int    // the memory file; it belongs to the Memory
	Offset   int64  // of the first byte in that file
	PageSize int    // bytes
}

// end is the device address behind the region.
func (r Region) end() uint64 { return r.IOVA + uint64(len(r.Bytes)) }

// Memory is memory that devices may reach. It is backed by files that can be
// handed to another process (vhost-user), in hugepages or plain pages, and
// every byte of it has a device address. The files have no names: however the
// process ends, the pages are free again. Its methods may be called from any
// goroutine.
type Memory struct {
	cfg      MemoryConfig
	pageSize int // of the first segment

	// growing is held while memory is added, from its making to the last
	// subscriber's answer. It is taken before mu.
	growing sync.Mutex

	mu          sync.Mutex
	segments    []*segment
	areas       []*area
	brought     []*Registration
	subscribers []*subscriber
	closed      bool
}

// NewMemory makes a Memory of at least cfg.Size bytes. Hugepages are taken at
// once; plain pages are not touched, so that unused memory costs nothing.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("mbuf: %w", err)
	}
	node, err := bindingNode(cfg.Node.number(), memoryNodes("/"))
	if err != nil {
		return nil, fmt.Errorf("mbuf: %w", err)
	}
	cfg.Node = OnNode(node)
	m := &Memory{cfg: cfg}
	if _, err := m.Grow(cfg.Size); err != nil {
		return nil, err
	}
	m.pageSize = m.segments[0].pageSize
	return m, nil
}

// Regions lists the memory for a transport to map. The slice is the caller's.
// A transport that is to see memory added later calls OnGrow first.
func (m *Memory) Regions() []Region {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.regions()
}

// regions is Regions; the caller holds mu.
func (m *Memory) regions() (all []Region) {
	for _, a := range m.areas {
		all = append(all, a.Region)
	}
	for _, r := range m.brought {
		all = append(all, r.regions...)
	}
	return all
}

// Mode says where the device addresses come from.
func (m *Memory) Mode() IOVAMode { return m.cfg.IOVA }

// PageSize is the size in bytes of the pages that the memory started with.
// Memory added later may have others, see Region.
func (m *Memory) PageSize() int { return m.pageSize }

// Close unmaps the memory, but for what Register brought: that stays the
// application's. No device and no buffer may use it any more. A second call
// does nothing.
func (m *Memory) Close() error {
	m.growing.Lock()
	defer m.growing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, s := range m.segments {
		errs = append(errs, s.close())
	}
	for _, r := range m.brought {
		errs = append(errs, unix.Close(r.fd))
	}
	m.segments, m.areas, m.brought, m.subscribers, m.closed = nil, nil, nil, nil, true
	return errors.Join(errs...)
}

func roundUp(n, align int) int { return (n + align - 1) / align * align }
