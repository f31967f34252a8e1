package pci

import (
	"sync/atomic"
	"unsafe"
)

// Accesses to device registers. Each function compiles to one load or one
// store of its width, and noinline keeps the compiler from merging, splitting
// or leaving out any: it sees calls. Stores are plain, not atomic: an atomic
// store is an exchange on amd64, which would also read the register. amd64
// keeps stores in order, so what was written to memory before is seen by a
// device that a store told to look.
//
// Each takes the address of its register's first byte. The caller has proved
// the rest of the register in bounds by slicing; registers lie in mappings
// that start at a page, at offsets aligned to their width.

//go:noinline
func load8(p *byte) uint8 { return *p }

//go:noinline
func store8(p *byte, v uint8) { *p = v }

//go:noinline
func load16(p *byte) uint16 {
	// Two bytes, aligned to two.
	return *(*uint16)(unsafe.Pointer(p))
}

//go:noinline
func store16(p *byte, v uint16) {
	// Two bytes, aligned to two.
	*(*uint16)(unsafe.Pointer(p)) = v
}

//go:noinline
func load32(p *byte) uint32 {
	// Four bytes, aligned to four.
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(p)))
}

//go:noinline
func store32(p *byte, v uint32) {
	// Four bytes, aligned to four.
	*(*uint32)(unsafe.Pointer(p)) = v
}
