package mbuf

import "unsafe"

// addrOf gives the address of b's first byte. b is mapped memory outside the
// Go heap, so the number stays right.
func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Addr is the process's address of the region's first byte: what vhost-user
// calls the user address.
func (r Region) Addr() uintptr { return addrOf(r.Bytes) }

// Addr is the process's address of the zone's first byte.
func (z Zone) Addr() uintptr { return addrOf(z.Bytes) }
