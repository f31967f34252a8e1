package sender

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	_      uint32 // bytes that were sent
}

// messages are those of one system call.
type messages []message

// newMessages makes n messages, each with bytes of its own.
func newMessages(n, size int) messages {
	m := make(messages, n)
	for i := range m {
		iov := new(unix.Iovec)
		if size > 0 {
			iov.Base = &make([]byte, size)[0]
		}
		iov.SetLen(size)
		m[i].header.Iov = iov
		m[i].header.SetIovlen(1)
	}
	return m
}

// send sends them all, or those that it can.
func (m messages) send(fd int) error {
	// The kernel reads the headers, which m keeps alive and where they are.
	_, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
