package mbuf

import (
	"bytes"
	"testing"
)

// Lent memory is a packet like any other, and its token comes back when it was
// freed: alone, through a cache, at the end of a chain.
func TestLender(t *testing.T) {
	p := newTestPool(t, 64, DefaultSize)
	cache := p.NewCache(0)
	l := NewLender(3)
	data := bytes.Repeat([]byte{7}, 1000)
	var lent []*Buf
	for token := range uint32(3) {
		b := l.Lend(data, token+10)
		if b == nil || b.PacketLen() != 1000 || b.Headroom()+b.Tailroom() != 0 || !b.Lent() || &b.Bytes()[0] != &data[0] {
			t.Fatalf("packet %d: %+v", token, b)
		}
		lent = append(lent, b)
	}
	if l.Lend(data, 0) != nil || l.Out() != 3 {
		t.Errorf("%d of 3 out, and a fourth can be had", l.Out())
	}
	tokens := make([]uint32, 8)
	if n := l.TakeBack(tokens); n != 0 {
		t.Errorf("%d are back before they were freed", n)
	}
	back := func(free func(), token uint32, out int) {
		t.Helper()
		free()
		if l.Out() != out {
			t.Errorf("%d out, want %d", l.Out(), out)
		}
		if n := l.TakeBack(tokens); n != 1 || tokens[0] != token {
			t.Errorf("%d are back, %v, want %d", n, tokens[:n], token)
		}
	}
	back(lent[1].Free, 11, 2)
	back(func() { cache.Put(lent[:1]) }, 10, 1)
	head := p.Get()
	if head.Lent() {
		t.Error("a packet of the pool says that it is lent")
	}
	head.Append(20)
	head.Chain(lent[2])
	if !head.Lent() {
		t.Error("a packet that ends in lent memory does not say so")
	}
	back(func() { cache.Put([]*Buf{head}) }, 12, 0)
	if b := l.Lend(data[:5], 1); b == nil || b.Segments() != 1 || b.PacketLen() != 5 {
		t.Errorf("lent again: %+v", b)
	} else {
		b.Free()
	}
	if l.Lend(make([]byte, maxBufSize+1), 1) != nil {
		t.Error("lent more than a length can say")
	}
	cache.Flush()
}

// Bursts of mixed packets find their pools.
func TestCachePutsMixedBursts(t *testing.T) {
	own, other := newTestPool(t, 64, DefaultSize), newTestPool(t, 64, DefaultSize)
	l := NewLender(8)
	cache := own.NewCache(8)
	var pkts []*Buf
	for i := range 24 {
		switch i / 2 % 4 {
		case 0:
			pkts = append(pkts, own.Get())
		case 1:
			pkts = append(pkts, l.Lend(make([]byte, 10), uint32(i)))
		case 2:
			pkts = append(pkts, other.Get())
		case 3:
			b := other.Get()
			b.Chain(own.Get())
			pkts = append(pkts, b)
		}
	}
	cache.Put(pkts)
	cache.Flush()
	if own.Free() != 64 || other.Free() != 64 || l.Out() != 0 {
		t.Errorf("%d and %d of 64 buffers are back, %d are lent", own.Free(), other.Free(), l.Out())
	}
}

func TestCacheCopy(t *testing.T) {
	p := newTestPool(t, 64, 256) // 128 bytes behind the headroom
	cache := p.NewCache(0)
	data := make([]byte, 1000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	l := NewLender(3)
	b := l.Lend(data[:300], 0)
	b.Chain(l.Lend(data[300:], 0))
	b.Flags, b.VLAN, b.Port, b.L2Len, b.SegSize = RxHash|RxL4Good, 5, 3, 14, 99
	copied := cache.Copy(b)
	b.Free()
	var got []byte
	for seg := copied; seg != nil; seg = seg.Next() {
		got = append(got, seg.Bytes()...)
	}
	if !bytes.Equal(got, data) || copied.PacketLen() != 1000 || copied.Segments() != 8 || copied.Lent() {
		t.Errorf("%d bytes in %d segments", copied.PacketLen(), copied.Segments())
	}
	if copied.Flags != RxHash|RxL4Good || copied.VLAN != 5 || copied.Port != 3 || copied.L2Len != 14 || copied.SegSize != 99 {
		t.Errorf("what is known about it: %+v", copied)
	}
	copied.Free()
	// Too few buffers: none is kept.
	var held []*Buf
	cache.Flush()
	for range 60 {
		held = append(held, p.Get())
	}
	b = l.Lend(data, 0)
	if cache.Copy(b) != nil {
		t.Error("a copy of 8 buffers out of 4")
	}
	b.Free()
	cache.Put(held)
	cache.Flush()
	if p.Free() != 64 {
		t.Errorf("%d of 64 buffers are back", p.Free())
	}
}
