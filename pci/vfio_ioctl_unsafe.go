package pci

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl makes a call whose argument is a number, or none.
func ioctl(fd int, request, arg uintptr) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, arg)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
			continue
		default:
			return 0, errno
		}
	}
}

// ioctlBytes makes a call whose argument is a structure in memory; b is not
// empty and as long as the structure that the request takes.
func ioctlBytes(fd int, request uintptr, b []byte) (int, error) {
	for {
		// The conversion stands in the call, which keeps b alive.
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
			continue
		default:
			return 0, errno
		}
	}
}

// addressOf gives the address of mapped memory, which does not move.
func addressOf(b []byte) uint64 {
	// The kernel wants the number; nothing here turns it into a pointer again.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
