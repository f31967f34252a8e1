package mbuf

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"
)

// segment is a memory file and its mapping.
type segment struct {
	fd       int
	bytes    []byte
	pageSize int
}

// newSegment makes a segment of at least size bytes, in the best pages that
// cfg allows and the machine has.
func newSegment(cfg MemoryConfig, size int) (*segment, error) {
	if size > math.MaxInt-gigaPageSize {
		return nil, errors.New("too many to round up to pages")
	}
	var failure error
	for _, pageSize := range cfg.pageSizes(size) {
		s, err := mapSegment(size, pageSize, cfg.Node.number())
		if err == nil {
			return s, nil
		}
		// Of the reasons, the one with the easiest remedy.
		if failure == nil || pageSize <= hugePageSize {
			failure = err
		}
	}
	if cfg.IOVA == IOVAPhysical {
		return nil, fmt.Errorf("physical addresses need hugepages: %w", failure)
	}
	return nil, failure
}

// pageSizes lists the sizes of pages to try for size bytes, the best first.
func (cfg MemoryConfig) pageSizes(size int) []int {
	plain := unix.Getpagesize()
	switch {
	case cfg.NoHuge:
		return []int{plain}
	case cfg.PageSize != 0:
		return []int{cfg.PageSize}
	}
	sizes := []int{hugePageSize, gigaPageSize}
	if size >= gigaPageSize {
		slices.Reverse(sizes)
	}
	if cfg.IOVA != IOVAPhysical { // plain pages move
		sizes = append(sizes, plain)
	}
	return sizes
}

// mapSegment makes the file and maps it. Hugepages are all there afterwards.
func mapSegment(size, pageSize, node int) (_ *segment, err error) {
	s := &segment{fd: -1, pageSize: pageSize}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	size = roundUp(size, pageSize)
	if s.fd, err = memoryFile(size, pageSize); err != nil {
		return nil, err
	}
	if pageSize == unix.Getpagesize() {
		return s, s.mapPlain(size, node)
	}
	if err := onNode(node, func() error { return s.mapHuge(size) }); err != nil {
		return nil, shortageError(size, pageSize, node, err)
	}
	return s, nil
}

// memoryFile makes a file of size bytes, whole pages of pageSize.
func memoryFile(size, pageSize int) (fd int, err error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if pageSize != unix.Getpagesize() {
		flags |= unix.MFD_HUGETLB | bits.TrailingZeros(uint(pageSize))<<unix.MFD_HUGE_SHIFT
	}
	if fd, err = unix.MemfdCreate("vionet", flags); err != nil {
		return -1, pageSizeError(pageSize, err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		err = fmt.Errorf("memory file of %d bytes: %w: lower -m or --total-num-mbufs", size, err)
	} else if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		// Sealed, so that who is given the file can be sure that it stays.
		err = fmt.Errorf("seal the memory file: %w", err)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// mapPlain maps plain pages that come, when they are first touched, from the
// node.
func (s *segment) mapPlain(size, node int) (err error) {
	if s.bytes, err = unix.Mmap(s.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mmap: %w: lower -m or --total-num-mbufs", err)
	}
	if node == AnyNode {
		return nil
	}
	if err := bindMapping(s.bytes, node); err != nil {
		return fmt.Errorf("bind memory to NUMA node %d: %w: a container may forbid it", node, err)
	}
	return nil
}

// mapHuge maps hugepages. The mapping sets all of them aside or fails. That
// they can also be had, here and now, is for fallocate to find out: it fails
// where a first touch would end the process.
func (s *segment) mapHuge(size int) (err error) {
	if s.bytes, err = unix.Mmap(s.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	for {
		err = unix.Fallocate(s.fd, 0, 0, int64(size))
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) { // a signal came; what is there stays
			return fmt.Errorf("fallocate: %w", err)
		}
	}
	for off := 0; off < size; off += s.pageSize {
		s.bytes[off] = 0 // no page fault later, and an entry in the page map
	}
	return nil
}

// close unmaps the segment and gives its pages back.
func (s *segment) close() error {
	var errs []error
	if s.bytes != nil {
		errs = append(errs, unix.Munmap(s.bytes))
	}
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
	}
	s.bytes, s.fd = nil, -1
	return errors.Join(errs...)
}
