package vhost

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// maxGuestMemory bounds what is mapped of one front end's files, in bytes. They
// need not have any pages, and whoever maps them without a bound has no address
// space left for itself.
const maxGuestMemory uint64 = 1 << 42

// guestMemory is the memory of a front end, mapped here. Nothing may use a
// slice of it after unmap.
type guestMemory struct {
	regions []guestRegion
	lost    func(cause any) bool // see session.lostMemory; nil: nobody asks
	iotlb   *iotlb               // what device addresses stand for; nil: for themselves
}

type guestRegion struct {
	memRegion
	sealed  bool   // the front end cannot take it away
	bytes   []byte // the region itself
	mapping []byte // from the start of the file
}

// mapGuest maps the regions of a memory table; fds are their files, and stay
// the caller's.
func mapGuest(table []memRegion, fds []int) (*guestMemory, error) {
	if len(table) == 0 || len(table) != len(fds) {
		return nil, fmt.Errorf("%d regions of memory with %d file descriptors", len(table), len(fds))
	}
	g := &guestMemory{}
	for i, r := range table {
		mapped, err := g.mapBeside(r, fds[i])
		if err != nil {
			g.unmap()
			return nil, fmt.Errorf("memory region %d: %w", i, err)
		}
		g.regions = append(g.regions, mapped)
	}
	return g, nil
}

// with is g and one region more, whose file stays the caller's. The mappings
// of g are part of both.
func (g *guestMemory) with(r memRegion, fd int) (*guestMemory, error) {
	if len(g.regions) >= maxMemSlots {
		return nil, fmt.Errorf("%d regions of memory are all there can be", maxMemSlots)
	}
	mapped, err := g.mapBeside(r, fd)
	if err != nil {
		return nil, err
	}
	return &guestMemory{regions: append(slices.Clone(g.regions), mapped)}, nil
}

// has reports whether that very region is part of g.
func (g *guestMemory) has(r memRegion) bool {
	return slices.ContainsFunc(g.regions, func(o guestRegion) bool { return o.memRegion == r })
}

// without is g without one region. The other mappings are part of both.
func (g *guestMemory) without(r memRegion) (*guestMemory, error) {
	same := func(o guestRegion) bool {
		return o.guest == r.guest && o.size == r.size && o.user == r.user
	}
	if !slices.ContainsFunc(g.regions, same) {
		return nil, fmt.Errorf("there is no memory region of %d bytes at device address %#x", r.size, r.guest)
	}
	return &guestMemory{regions: slices.DeleteFunc(slices.Clone(g.regions), same)}, nil
}

// mapBeside maps a region that is to belong to g, if there is a place for it.
func (g *guestMemory) mapBeside(r memRegion, fd int) (guestRegion, error) {
	left := maxGuestMemory
	for _, o := range g.regions {
		left -= o.offset + o.size
	}
	if r.size > left || r.offset > left-r.size {
		return guestRegion{}, fmt.Errorf("it and those before it map more than %d bytes", maxGuestMemory)
	}
	if err := g.disjoint(r); err != nil {
		return guestRegion{}, err
	}
	return mapRegion(r, fd)
}

// sealed reports whether the front end can take none of it away.
func (g *guestMemory) sealed() bool {
	return !slices.ContainsFunc(g.regions, func(r guestRegion) bool { return !r.sealed })
}

func (g *guestMemory) empty() bool { return len(g.regions) == 0 }

// mapRegion maps the file from its start: hugepage files want offsets and
// lengths of whole pages, and the region may begin within one.
func mapRegion(r memRegion, fd int) (guestRegion, error) {
	if r.size == 0 || r.size > maxGuestMemory || r.offset > maxGuestMemory-r.size || r.guest > math.MaxUint64-r.size || r.user > math.MaxUint64-r.size {
		return guestRegion{}, fmt.Errorf("%d bytes at offset %d: the range is empty, wraps, or is too long", r.size, r.offset)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return guestRegion{}, err
	}
	end := int64(r.offset + r.size)
	if end > st.Size {
		return guestRegion{}, fmt.Errorf("it ends at byte %d of a file of %d bytes", end, st.Size)
	}
	page := max(int64(st.Blksize), int64(unix.Getpagesize()))
	length := (end + page - 1) / page * page
	mapping, err := unix.Mmap(fd, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return guestRegion{}, fmt.Errorf("mmap of %d bytes: %w", length, err)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	sealed := err == nil && seals&unix.F_SEAL_SHRINK != 0
	return guestRegion{memRegion: r, sealed: sealed, bytes: mapping[r.offset:end:end], mapping: mapping}, nil
}

// disjoint checks that r shares no address with the regions so far.
func (g *guestMemory) disjoint(r memRegion) error {
	for _, o := range g.regions {
		if r.guest < o.guest+o.size && o.guest < r.guest+r.size {
			return fmt.Errorf("it overlaps another at device address %#x", max(r.guest, o.guest))
		}
	}
	return nil
}

// slice gives the n bytes at a device address, or false when they do not all
// lie in the region.
func (r *guestRegion) slice(addr uint64, n uint32) ([]byte, bool) {
	// Below the region's start, off wraps and is too large.
	off := addr - r.guest
	if off < r.size && uint64(n) <= r.size-off {
		return r.bytes[off : off+uint64(n)], true
	}
	return nil, false
}

// find gives the n bytes at a device address and the region that they lie in;
// nil when there is none that holds them all, and behind an IOMMU: see spread.
func (g *guestMemory) find(addr uint64, n uint32) ([]byte, *guestRegion) {
	if g.iotlb != nil {
		return nil, nil
	}
	if r, _ := g.guestRegion(addr); r != nil {
		if b, ok := r.slice(addr, n); ok {
			return b, r
		}
	}
	return nil, nil
}

// slice is find, for those who need not know the region.
func (g *guestMemory) slice(addr uint64, n uint32) ([]byte, bool) {
	b, region := g.find(addr, n)
	return b, region != nil
}

// errOutside says that an address is not in shared memory.
var errOutside = errors.New("it is not in shared memory")

// spread adds the pieces of host memory that make up the n bytes at a device
// address to dst. They may lie in adjacent regions and, behind an IOMMU, in any
// order. The error wraps errOutside, errForbidden, or errMissed, when the
// front end has been asked for a translation, and is to be asked about later.
func (g *guestMemory) spread(dst [][]byte, addr uint64, n uint32, write bool) ([][]byte, error) {
	want := mayRead
	if write {
		want = mayWrite
	}
	for rest := uint64(n); rest > 0; {
		r, off, run, err := g.locate(addr, rest, want)
		if err != nil {
			return dst, err
		}
		dst = append(dst, r.bytes[off:off+run])
		addr += run
		rest -= run
	}
	return dst, nil
}

// locate finds where the n bytes at a device address begin, n at least 1: run
// of them lie at an offset in a region.
func (g *guestMemory) locate(addr, n uint64, want access) (r *guestRegion, off, run uint64, err error) {
	if g.iotlb == nil {
		r, off = g.guestRegion(addr)
	} else {
		var user uint64
		if user, n, err = g.iotlb.translate(addr, n, want); err != nil {
			return nil, 0, 0, err
		}
		r, off = g.userRegion(user)
	}
	if r == nil {
		return nil, 0, 0, errOutside
	}
	return r, off, min(n, r.size-off), nil
}

// guestRegion finds a guest-physical address: nil, when there is no such.
func (g *guestMemory) guestRegion(addr uint64) (r *guestRegion, off uint64) {
	for i := range g.regions {
		// Below the region's start, the difference wraps and is too large.
		if r := &g.regions[i]; addr-r.guest < r.size {
			return r, addr - r.guest
		}
	}
	return nil, 0
}

// userRegion finds an address of the front end's process.
func (g *guestMemory) userRegion(addr uint64) (r *guestRegion, off uint64) {
	for i := range g.regions {
		if r := &g.regions[i]; addr-r.user < r.size {
			return r, addr - r.user
		}
	}
	return nil, 0
}

// ringArea is one of the three areas of a virtqueue.
type ringArea struct {
	addr  uint64 // as the front end gave it
	guest uint64 // the guest-physical address
	bytes []byte
}

// ringArea finds the n bytes of an area. Its address is one of the front end's
// process or, behind an IOMMU, the device's.
func (g *guestMemory) ringArea(addr uint64, n int, want access) (ringArea, error) {
	user, run := addr, uint64(n)
	if g.iotlb != nil {
		var err error
		if user, run, err = g.iotlb.translate(addr, run, want); err != nil {
			return ringArea{}, err
		}
		if run < uint64(n) {
			// What follows may be missing yet, or lie elsewhere.
			if _, _, err := g.iotlb.translate(addr+run, uint64(n)-run, want); err != nil {
				return ringArea{}, err
			}
			return ringArea{}, errors.New("it is not in one piece")
		}
	}
	r, off := g.userRegion(user)
	if r == nil || run > r.size-off {
		return ringArea{}, errOutside
	}
	return ringArea{addr: addr, guest: r.guest + off, bytes: r.bytes[off : off+run]}, nil
}

// overlaps reports whether the area has an address from first to last.
func (a *ringArea) overlaps(first, last uint64) bool {
	return len(a.bytes) > 0 && a.addr <= last && first <= a.addr+uint64(len(a.bytes))-1
}

// unmap gives the mappings back. A second call does nothing.
func (g *guestMemory) unmap() {
	unmapAll(g.mappingsBeside(&guestMemory{}))
	g.regions = nil
}

// mappingsBeside gives the mappings that are not part of other.
func (g *guestMemory) mappingsBeside(other *guestMemory) (mappings [][]byte) {
	for _, r := range g.regions {
		kept := slices.ContainsFunc(other.regions, func(o guestRegion) bool {
			return len(o.mapping) > 0 && len(r.mapping) > 0 && &o.mapping[0] == &r.mapping[0]
		})
		if r.mapping != nil && !kept {
			mappings = append(mappings, r.mapping)
		}
	}
	return mappings
}

func unmapAll(mappings [][]byte) {
	for _, m := range mappings {
		unix.Munmap(m)
	}
}
