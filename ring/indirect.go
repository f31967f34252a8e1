package ring

import "fmt"

// indirectTables are tables of descriptors, one for each head (virtio 1.2,
// sections 2.7.5.3 and 2.8.7). The zero value has none.
type indirectTables struct {
	splitDescs  []Desc
	packedDescs []packedDesc
	iova        uint64
}

func newIndirectTables(size int, opts Options) (indirectTables, error) {
	if opts.Indirect == nil {
		return indirectTables{}, nil
	}
	if len(opts.Indirect) < size*IndirectLen || opts.IndirectIOVA%DescSize != 0 {
		return indirectTables{}, fmt.Errorf("ring: %d bytes at %#x for the indirect tables of %d descriptors: must be %d, aligned to %d", len(opts.Indirect), opts.IndirectIOVA, size, size*IndirectLen, DescSize)
	}
	return viewIndirect(size, opts), nil
}

// cost is the number of descriptors in the ring that n segments take.
func (t *indirectTables) cost(n int) int {
	if n > 1 && n <= IndirectEntries && t.splitDescs != nil {
		return 1
	}
	return n
}

// addr is the device address of a head's table.
func (t *indirectTables) addr(head uint16) uint64 { return t.iova + uint64(head)*IndirectLen }

// split fills the head's table and gives the descriptor that points to it.
func (t *indirectTables) split(head uint16, segs []Segment) Desc {
	table := t.splitDescs[int(head)*IndirectEntries:][:len(segs)]
	for i, s := range segs {
		table[i] = Desc{Addr: s.Addr, Len: s.Len}
		if i < len(segs)-1 {
			table[i].Flags, table[i].Next = DescNext, uint16(i+1)
		}
	}
	return Desc{Addr: t.addr(head), Len: uint32(len(segs)) * DescSize, Flags: DescIndirect}
}

// packed fills the head's table for a packed virtqueue, whose entries follow
// each other without links, and gives where it is and how long.
func (t *indirectTables) packed(head uint16, segs []Segment) Segment {
	table := t.packedDescs[int(head)*IndirectEntries:][:len(segs)]
	for i, s := range segs {
		table[i] = packedDesc{Addr: s.Addr, Len: s.Len}
	}
	return Segment{Addr: t.addr(head), Len: uint32(len(segs)) * DescSize}
}
