package vhost

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// guestMemory is the memory of a front end, mapped here. Nothing may use a
// slice of it after unmap.
type guestMemory struct {
	regions []guestRegion
	iotlb   *iotlb // what device addresses stand for; nil: for themselves
}

type guestRegion struct {
	memRegion
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
		mapped, err := mapRegion(r, fds[i])
		if err == nil {
			err = g.disjoint(r)
		}
		if err != nil {
			g.regions = append(g.regions, mapped)
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
	if err := g.disjoint(r); err != nil {
		return nil, err
	}
	mapped, err := mapRegion(r, fd)
	if err != nil {
		return nil, err
	}
	return &guestMemory{regions: append(slices.Clone(g.regions), mapped)}, nil
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

func (g *guestMemory) empty() bool { return len(g.regions) == 0 }

// mapRegion maps the file from its start: hugepage files want offsets and
// lengths of whole pages, and the region may begin within one.
func mapRegion(r memRegion, fd int) (guestRegion, error) {
	if r.size == 0 || r.size > math.MaxInt64 || r.offset > math.MaxInt64-r.size || r.guest > math.MaxUint64-r.size || r.user > math.MaxUint64-r.size {
		return guestRegion{}, fmt.Errorf("%d bytes at offset %d: the range is empty or wraps", r.size, r.offset)
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
	if end > math.MaxInt64-page {
		return guestRegion{}, fmt.Errorf("%d bytes are too many", end)
	}
	length := (end + page - 1) / page * page
	mapping, err := unix.Mmap(fd, 0, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return guestRegion{}, fmt.Errorf("mmap of %d bytes: %w", length, err)
	}
	return guestRegion{memRegion: r, bytes: mapping[r.offset:end:end], mapping: mapping}, nil
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
// lie in one region, or lie behind an IOMMU: see spread.
func (g *guestMemory) slice(addr uint64, n uint32) ([]byte, bool) {
	if g.iotlb != nil {
		return nil, false
	}
	r, off := g.guestRegion(addr)
	if r == nil || uint64(n) > r.size-off {
		return nil, false
	}
	return r.bytes[off : off+uint64(n)], true
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
func (g *guestMemory) unmap() { g.unmapUnless(&guestMemory{}) }

// unmapUnless gives those mappings back that are not part of other.
func (g *guestMemory) unmapUnless(other *guestMemory) {
	for _, r := range g.regions {
		kept := slices.ContainsFunc(other.regions, func(o guestRegion) bool {
			return len(o.mapping) > 0 && len(r.mapping) > 0 && &o.mapping[0] == &r.mapping[0]
		})
		if r.mapping != nil && !kept {
			unix.Munmap(r.mapping)
		}
	}
	g.regions = nil
}
