package vhost

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// guestMemory is the memory of a front end, mapped here. Nothing may use a
// slice of it after unmap.
type guestMemory struct {
	regions []guestRegion
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
// lie in one region.
func (g *guestMemory) slice(addr uint64, n uint32) ([]byte, bool) {
	for i := range g.regions {
		r := &g.regions[i]
		// Below the region's start, off wraps and is too large.
		off := addr - r.guest
		if off < r.size && uint64(n) <= r.size-off {
			return r.bytes[off : off+uint64(n)], true
		}
	}
	return nil, false
}

// userSlice gives the n bytes at an address of the front end's process.
func (g *guestMemory) userSlice(addr uint64, n int) ([]byte, bool) {
	for i := range g.regions {
		r := &g.regions[i]
		off := addr - r.user
		if off < r.size && uint64(n) <= r.size-off {
			return r.bytes[off : off+uint64(n)], true
		}
	}
	return nil, false
}

// unmap gives the mappings back. A second call, and one on nil, does nothing.
func (g *guestMemory) unmap() {
	if g == nil {
		return
	}
	for _, r := range g.regions {
		if r.mapping != nil {
			unix.Munmap(r.mapping)
		}
	}
	g.regions = nil
}
