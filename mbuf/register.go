package mbuf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Area is memory of the application's own, in whole pages: what unix.Mmap gives,
// never the Go heap.
type Area struct {
	Bytes []byte // the memory
	// File is what Bytes is a shared mapping of, from Offset on: a memory file,
	// or one on hugetlbfs. Nil: Bytes is anonymous memory.
	File   *os.File
	Offset int64
}

// Registration is an Area that devices may reach.
type Registration struct {
	mem     *Memory
	bytes   []byte
	regions []Region
	fd      int // the registration's own

	users atomic.Int64 // External memory that may be with a device
}

// Register makes an area a part of m, also while ports run: it is mapped for
// every device and handed to every back end that has m. When Register returns,
// packets may point to it; the pools do not take from it.
//
// A back end in another process needs a file. Where the area has none, Register
// puts a memory file in plain pages under its addresses, for good, and keeps the
// contents; nobody may write to it meanwhile. Physical addresses (IOVAPhysical) take an
// area with a file of hugepages.
//
// The area stays the application's, and mapped until Unregister has succeeded.
// Register may be called from any goroutine. On an error, which says what is
// wrong with the area, no device can reach it.
func (m *Memory) Register(a Area) (*Registration, error) {
	m.growing.Lock()
	defer m.growing.Unlock()
	r, err := m.register(a)
	if err != nil {
		return nil, fmt.Errorf("mbuf: register %d bytes at %#x: %w", len(a.Bytes), addrOf(a.Bytes), err)
	}
	return r, nil
}

func (m *Memory) register(a Area) (*Registration, error) {
	pageSize, err := a.check(m.Mode())
	if err != nil {
		return nil, err
	}
	if err := m.mayGrow(); err != nil {
		return nil, err
	}
	for _, r := range m.Regions() {
		if start := r.Addr(); start < a.end() && addrOf(a.Bytes) < start+uintptr(len(r.Bytes)) {
			return nil, fmt.Errorf("it overlaps %d bytes at %#x that are there already: register each page once", len(r.Bytes), start)
		}
	}
	r := &Registration{mem: m, bytes: a.Bytes}
	if r.fd, err = a.file(pageSize); err != nil {
		return nil, err
	}
	r.regions, err = m.admit(Region{Bytes: a.Bytes, FD: r.fd, Offset: a.Offset, PageSize: pageSize})
	if err != nil {
		return nil, errors.Join(err, unix.Close(r.fd))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.brought = append(m.brought, r)
	return r, nil
}

// end is the address behind the area.
func (a Area) end() uintptr { return addrOf(a.Bytes) + uintptr(len(a.Bytes)) }

// nearHeap reports whether an address may be part of the Go heap, which the
// runtime keeps in one piece where it can: it is no further from an object of
// the heap than the runtime has memory. A file under the heap would be the
// collector's to give back.
func nearHeap(address uintptr) bool {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	object := addrOf(make([]byte, heapObject))
	return max(address, object)-min(address, object) <= uintptr(sample[0].Value.Uint64())+heapArena
}

const (
	heapObject = 1 << 17 // too large for a stack
	heapArena  = 64 << 20
)

// check finds out what can't be registered, and the size of the pages.
func (a Area) check(mode IOVAMode) (pageSize int, err error) {
	pageSize, huge := unix.Getpagesize(), false
	if a.File != nil {
		if pageSize, huge, err = filePages(a.File); err != nil {
			return 0, err
		}
	}
	start := addrOf(a.Bytes)
	switch {
	case len(a.Bytes) == 0:
		return 0, errors.New("it is empty")
	case start%uintptr(pageSize) != 0 || len(a.Bytes)%pageSize != 0 || a.Offset%int64(pageSize) != 0:
		return 0, fmt.Errorf("address, length and offset must be multiples of the page of %s: take memory from unix.Mmap", SizeName(pageSize))
	case nearHeap(start):
		return 0, errors.New("it is part of the Go heap: take memory from unix.Mmap")
	case mode == IOVAPhysical && !huge:
		return 0, errors.New("physical addresses need hugepages, since plain pages move: map a file of memfd_create with MFD_HUGETLB, and name it as File")
	case a.File == nil:
		return pageSize, nil
	}
	info, err := a.File.Stat()
	if err == nil && (a.Offset < 0 || info.Size() < a.Offset+int64(len(a.Bytes))) {
		err = fmt.Errorf("the file of %d bytes ends before the area does: is it the one that is mapped there?", info.Size())
	}
	return pageSize, err
}

// filePages gives the size of a file's pages, and whether they are hugepages.
func filePages(f *os.File) (size int, huge bool, err error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return 0, false, fmt.Errorf("pages of the file: %w", err)
	}
	if fs.Type == unix.HUGETLBFS_MAGIC {
		return int(fs.Bsize), true, nil
	}
	return unix.Getpagesize(), false, nil
}

// file gives a descriptor, the caller's, of the file behind the area. An
// anonymous one gets a file.
func (a Area) file(pageSize int) (int, error) {
	if a.File != nil {
		fd, err := unix.FcntlInt(a.File.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil && pageSize > unix.Getpagesize() {
			touch(a.Bytes, pageSize)
		}
		return fd, err
	}
	fd, err := memoryFile(len(a.Bytes), pageSize)
	if err != nil {
		return -1, err
	}
	for done := 0; done < len(a.Bytes) && err == nil; {
		var n int
		n, err = unix.Pwrite(fd, a.Bytes[done:], int64(done))
		done += n
	}
	if err == nil {
		err = mapOver(a.Bytes, fd)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("put a memory file under it: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// touch has every page there is, with an entry in the page map, and leaves what
// it holds. It is not inlined, where nobody would miss the reads.
//
//go:noinline
func touch(b []byte, pageSize int) (sum byte) {
	for at := 0; at < len(b); at += pageSize {
		sum |= b[at]
	}
	return sum
}

// Bytes is the area.
func (r *Registration) Bytes() []byte { return r.bytes }

// InUse is the number of pieces of External memory in the area that somebody
// uses still: parts of it may be with a device.
func (r *Registration) InUse() int { return int(r.users.Load()) }

// Unregister takes the area from the devices, also while ports run, and gives
// it back to the application, which may unmap it then. While External memory in
// it is in use it waits until ctx is done, and fails with the number; so it does
// at once when ctx is done already. It may be called from any goroutine, but for
// the one that has to go on for packets to come back.
//
// When a device does not give the area up, the error says so; nobody may use
// the area any more, and it stays registered. A second Unregister does
// nothing.
func (r *Registration) Unregister(ctx context.Context) error {
	if err := r.wait(ctx); err != nil {
		return fmt.Errorf("mbuf: unregister %d bytes at %#x: %w", len(r.bytes), addrOf(r.bytes), err)
	}
	m := r.mem
	m.growing.Lock()
	defer m.growing.Unlock()
	m.mu.Lock()
	there, subscribers := slices.Contains(m.brought, r), slices.Clone(m.subscribers)
	m.mu.Unlock()
	if !there {
		return nil
	}
	if err := withdraw(subscribers, r.regions); err != nil {
		return fmt.Errorf("mbuf: unregister %d bytes at %#x: %w", len(r.bytes), addrOf(r.bytes), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.brought = slices.DeleteFunc(m.brought, func(o *Registration) bool { return o == r })
	return unix.Close(r.fd)
}

// waitPause is how often Unregister looks again.
const waitPause = time.Millisecond

func (r *Registration) wait(ctx context.Context) error {
	for r.users.Load() != 0 {
		select {
		case <-ctx.Done():
			if n := r.users.Load(); n != 0 {
				return fmt.Errorf("%d external buffers in it are in use or still with the device: %w: release them and wait for the packets, or stop the port", n, context.Cause(ctx))
			}
		case <-time.After(waitPause):
		}
	}
	return nil
}

// locate finds the region of m that holds all of b, and the registration, if
// any, that it is part of.
func (m *Memory) locate(b []byte) (Region, *Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	holds := func(r Region) bool {
		off := addrOf(b) - r.Addr()
		return off < uintptr(len(r.Bytes)) && uintptr(len(b)) <= uintptr(len(r.Bytes))-off
	}
	for _, a := range m.areas {
		if holds(a.Region) {
			return a.Region, nil, nil
		}
	}
	for _, reg := range m.brought {
		if i := slices.IndexFunc(reg.regions, holds); i >= 0 {
			return reg.regions[i], reg, nil
		}
	}
	return Region{}, nil, fmt.Errorf("%d bytes at %#x are not in one piece of memory that devices reach: register them with Memory.Register first", len(b), addrOf(b))
}
