package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
)

// mapArea gives size bytes, whole hugepages of 2 MiB, for frames. Frames that lie anywhere in
// small pages cost a walk through the page tables for nearly each, at both ends.
// Without hugepages it gives plain memory.
func mapArea(size int) (mbuf.Area, error) {
	area, err := mapHuge(size)
	if err == nil {
		return area, nil
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return mbuf.Area{Bytes: b}, err
}

func mapHuge(size int) (mbuf.Area, error) {
	fd, err := unix.MemfdCreate("udpblast", unix.MFD_CLOEXEC|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err != nil {
		return mbuf.Area{}, err
	}
	file := os.NewFile(uintptr(fd), "udpblast")
	if err := file.Truncate(int64(size)); err != nil {
		return mbuf.Area{}, errors.Join(err, file.Close())
	}
	// All pages come now, or the mapping fails.
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return mbuf.Area{}, errors.Join(err, file.Close())
	}
	return mbuf.Area{Bytes: b, File: file}, nil
}
