package vhost

import (
	"testing"

	"vionet/mbuf"
	"vionet/ring"
)

// The notes on a packed virtqueue, as a back end leaves them that dies at any
// moment of a flush.
func TestB29Notes(t *testing.T) {
	const size = 8
	memory, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4096, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	desc := memory.Regions()[0].Bytes[:size*ring.DescSize]
	flags := func(i int) *byte { return &desc[i*ring.DescSize+14] }
	a := inflightArea{queues: 2, queueSize: size, size: uint64(2 * inflightStride(size))}
	m, err := mapInflight(a, memfd(t, int64(a.size)))
	if err != nil {
		t.Fatal(err)
	}
	defer m.unmap()
	r := m.record(1, size)
	check := func(what string, base, want uint32) {
		t.Helper()
		if got, err := m.record(1, size).resume(size, desc, base); got != want || err != nil {
			t.Errorf("%s: base %#x, %v, want %#x", what, got, err, want)
		}
	}
	const wrap = 1 << 15
	check("fresh", ring.FreshPacked, ring.FreshPacked)
	*flags(0), *flags(1) = 0x80, 0x80
	burst := []ring.PackedUsed{{Offset: 0, ID: 3, Flags: 0x8080, Len: 7}, {Offset: 1, ID: 4, Flags: 0x8080, Len: 8}}
	r.Begin(burst, 2|wrap)
	r.setBurst(0) // it was not yet noted down
	check("before the note", 0, ring.FreshPacked)
	if *flags(0) != 0x80 {
		t.Error("a flush was made of no note")
	}
	r.Begin(burst, 2|wrap)
	check("before the flush", 0, 0x80028002)
	if desc[12] != 3 || desc[8] != 7 || desc[ring.DescSize+12] != 4 || *flags(1) != 0x80 || desc[ring.DescSize+15] != 0x80 {
		t.Errorf("the flush was not completed: %x", desc[:2*ring.DescSize])
	}
	r.Begin(burst[:1], 1)
	check("after the flush", 0, 0x00010001)
	r.Begin(burst[:1], 5)
	r.Commit()
	check("after the commit", 0, 0x00050005)
	m.record(1, size).forget()
	check("forgotten", 0x80028002, 0x80028002)
	for _, bad := range [][]ring.PackedUsed{{{Offset: 8}}, make([]ring.PackedUsed, size)} {
		r.Begin(bad, 0)
		if len(bad) == size {
			r.setBurst(size + 1)
		}
		if base, err := r.resume(size, desc, 0); err == nil {
			t.Errorf("base %#x of a note that makes no sense", base)
		}
	}
	for _, other := range []*usedRecord{m.record(2, size), m.record(0, size+9), (*inflightMemory)(nil).record(0, 1)} {
		if other != nil {
			t.Error("a record outside the memory")
		}
	}
	for _, bad := range []inflightArea{
		{queues: 0, queueSize: 8, size: 4096}, {queues: 257, queueSize: 1, size: 1 << 20}, {queues: 1, queueSize: 0, size: 4096},
		{queues: 1, queueSize: 65535, size: 1 << 30}, {queues: 2, queueSize: 8, size: a.size - 1}, {queues: 1, queueSize: 8, size: 4096, offset: 1},
	} {
		if m, err := mapInflight(bad, memfd(t, 4096)); err == nil {
			m.unmap()
			t.Errorf("%+v was mapped", bad)
		}
	}
}
