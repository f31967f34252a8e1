package packet

import (
	"fmt"

	"golang.org/x/net/bpf"

	"vionet/mbuf"
	"vionet/port"
)

// SetBPF has frames pass through a classic BPF program before they are read, as
// tcpdump -dd and golang.org/x/net/bpf make it. It begins at the Ethernet header
// and says how many bytes of a frame are read: 0 of one that is dropped. It runs
// in this process, on frames that were not read yet. An empty program takes the
// filter away.
//
// A program with instructions that golang.org/x/net/bpf does not know, extensions
// of Linux mostly, is refused with port.ErrInvalid.
func (c *Conn) SetBPF(program []bpf.RawInstruction) error {
	if c.ctx.Err() != nil {
		return c.failed("set", nil, c.why())
	}
	if len(program) == 0 {
		c.filter.Store(nil)
		return nil
	}
	instructions, known := bpf.Disassemble(program)
	if !known {
		return c.failed("set", nil, fmt.Errorf("BPF program: %w: it has instructions of the kernel's alone: compile it for an Ethernet link without extensions", port.ErrInvalid))
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		return c.failed("set", nil, fmt.Errorf("BPF program: %w: %w", port.ErrInvalid, err))
	}
	c.filter.Store(vm)
	return nil
}

// pass is the number of bytes of a frame that the filter wants to be read.
func (c *Conn) pass(b *mbuf.Buf) int {
	vm := c.filter.Load()
	if vm == nil {
		return b.PacketLen()
	}
	n, err := vm.Run(c.whole(b))
	if err != nil {
		return 0
	}
	return min(n, b.PacketLen())
}

// whole is a frame in one piece.
func (c *Conn) whole(b *mbuf.Buf) []byte {
	if b.Next() == nil {
		return b.Bytes()
	}
	c.joined = c.joined[:0]
	for ; b != nil; b = b.Next() {
		c.joined = append(c.joined, b.Bytes()...)
	}
	return c.joined
}
