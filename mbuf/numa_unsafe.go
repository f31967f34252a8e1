package mbuf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// nodeMask is a set of NUMA nodes as the kernel takes it. The kernel looks at
// one bit less than it is told, so there is a word to spare.
type nodeMask [1024/64 + 1]uint64

const nodeMaskBits = 64 * uintptr(len(nodeMask{}))

func maskOf(node int) *nodeMask {
	var m nodeMask
	m[node/64] = 1 << (node % 64)
	return &m
}

// setPolicy makes the calling thread's new pages come from one node.
func setPolicy(node int) error {
	// The kernel reads the mask during the call and keeps no pointer to it.
	_, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_BIND, uintptr(unsafe.Pointer(maskOf(node))), nodeMaskBits)
	return failed(errno)
}

// bindMapping makes the pages of b, none of which was touched, come from one
// node whoever touches them first.
func bindMapping(b []byte, node int) error {
	// As above; b is mapped memory, whose address is only a number here.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, addrOf(b), uintptr(len(b)), unix.MPOL_BIND, uintptr(unsafe.Pointer(maskOf(node))), nodeMaskBits, 0)
	return failed(errno)
}

func failed(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
