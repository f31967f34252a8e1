package mbuf

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func newTestMemory(t testing.TB, size int) *Memory {
	t.Helper()
	m, err := NewMemory(MemoryConfig{Size: size, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func newTestPool(t testing.TB, count, bufSize int) *Pool {
	t.Helper()
	p, err := NewPool(newTestMemory(t, count*Stride(max(bufSize, DefaultSize))), PoolConfig{Count: count, BufSize: bufSize})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBufIsTwoCacheLines(t *testing.T) {
	if n := unsafe.Sizeof(Buf{}); n != 2*cacheLine {
		t.Errorf("a Buf has %d bytes", n)
	}
}

func TestMemoryAddresses(t *testing.T) {
	t.Run("virtual", func(t *testing.T) {
		m := newTestMemory(t, 10000)
		z, err := m.Alloc(100, 64)
		if err != nil {
			t.Fatal(err)
		}
		if z.IOVA != uint64(z.Addr()) || z.IOVA%64 != 0 {
			t.Errorf("device address %#x, process address %#x", z.IOVA, z.Addr())
		}
	})
	t.Run("ranges", func(t *testing.T) {
		m, err := NewMemory(MemoryConfig{Size: 1 << 20, NoHuge: true, IOVA: IOVARanges, Ranges: []AddrRange{{0, 0xfedfffff}, {0xfef00000, 0x7fffffffff}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if got := m.Regions()[0].IOVA; got != 4<<30 {
			t.Errorf("device address %#x, want 4 GiB", got)
		}
	})
}

func TestPickIOVA(t *testing.T) {
	const hole = 0xfee00000
	tests := []struct {
		name   string
		ranges []AddrRange
		size   uint64
		want   uint64
		fails  bool
	}{
		{"above 4 GiB", []AddrRange{{0, hole - 1}, {hole + 1<<20, 1<<39 - 1}}, 1 << 30, 4 << 30, false},
		{"32 bits only", []AddrRange{{0, hole - 1}}, 1 << 20, 0x200000, false},
		{"behind a first range that is too small", []AddrRange{{0x1000000, 0x10fffff}, {0x2000000, 0x5ffffff}}, 0x2000000, 0x2000000, false},
		{"range that starts off alignment", []AddrRange{{0x300001, 0x9fffff}}, 0x200000, 0x400000, false},
		{"exactly the range", []AddrRange{{0x400000, 0x5fffff}}, 0x200000, 0x400000, false},
		{"one byte short", []AddrRange{{0x400000, 0x5ffffe}}, 0x200000, 0, true},
		{"top of the address space", []AddrRange{{1<<64 - 0x200000, 1<<64 - 1}}, 0x200000, 1<<64 - 0x200000, false},
		{"no ranges", nil, 1, 0, true},
	}
	for _, tt := range tests {
		got, err := pickIOVA(tt.ranges, tt.size, 0x200000)
		if (err != nil) != tt.fails || got != tt.want {
			t.Errorf("%s: %#x, %v; want %#x", tt.name, got, err, tt.want)
		}
	}
}

func TestMemoryAllocAndFree(t *testing.T) {
	m := newTestMemory(t, 1<<16)
	a, err := m.Alloc(5000, 4096)
	if err != nil {
		t.Fatal(err)
	}
	a.Bytes[0] = 7
	m.Free(a)
	b, err := m.Alloc(4000, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if b.IOVA != a.IOVA || b.Bytes[0] != 0 || len(b.Bytes) != 4000 {
		t.Errorf("the zone was not used again, or not zeroed")
	}
	m.Free(b)
	if c, err := m.Alloc(5000, 4096); err != nil || c.IOVA != a.IOVA {
		t.Errorf("the whole zone did not come back: %v", err)
	}
	if _, err := m.Alloc(1<<17, 64); !errors.Is(err, ErrNoMemory) {
		t.Errorf("too much: %v, want ErrNoMemory", err)
	}
	for _, align := range []int{0, 3, 1 << 20} {
		if _, err := m.Alloc(1, align); err == nil {
			t.Errorf("alignment %d was accepted", align)
		}
	}
}

func TestPhysicalMemoryNeedsHugepages(t *testing.T) {
	_, err := NewMemory(MemoryConfig{Size: 1 << 20, NoHuge: true, IOVA: IOVAPhysical})
	if err == nil || !strings.Contains(err.Error(), "nr_hugepages") {
		t.Errorf("error %v does not say what to do", err)
	}
}

func TestPhysicalMemory(t *testing.T) {
	m, err := NewMemory(MemoryConfig{Size: 4 << 20, IOVA: IOVAPhysical})
	if err != nil {
		if os.Geteuid() != 0 || strings.Contains(err.Error(), "nr_hugepages") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	defer m.Close()
	total := 0
	for _, r := range m.Regions() {
		total += len(r.Bytes)
		if r.IOVA%hugePageSize != 0 || r.IOVA == 0 {
			t.Errorf("region at %#x", r.IOVA)
		}
	}
	if total != 4<<20 {
		t.Errorf("regions of %d bytes in all", total)
	}
}

func TestPoolRefusesWhatCannotBe(t *testing.T) {
	m := newTestMemory(t, 1<<20)
	for _, cfg := range []PoolConfig{{Count: 0}, {Count: 1, BufSize: Headroom}, {Count: 1, BufSize: 65536}, {Count: 1000}} {
		if p, err := NewPool(m, cfg); err == nil {
			t.Errorf("%+v gave a pool of %d", cfg, p.Size())
		}
	}
	if _, err := NewPool(m, PoolConfig{Count: 400}); err != nil {
		t.Errorf("after the failures the memory is not whole: %v", err)
	}
}

func TestPoolCloseWaitsForItsBuffers(t *testing.T) {
	p := newTestPool(t, 4, 0)
	b := p.Get()
	if err := p.Close(); err == nil {
		t.Error("Close succeeded with a buffer out")
	}
	b.Free()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestBufWindow(t *testing.T) {
	p := newTestPool(t, 4, 512)
	b := p.Get()
	if b.Headroom() != 128 || b.Len() != 0 || b.Tailroom() != 384 || b.IOVA() != b.BaseIOVA()+128 {
		t.Fatalf("fresh buffer: headroom %d, tailroom %d", b.Headroom(), b.Tailroom())
	}
	copy(b.Append(5), "hello")
	copy(b.Prepend(3), "oh ")
	if string(b.Bytes()) != "oh hello" || b.PacketLen() != 8 {
		t.Errorf("%q", b.Bytes())
	}
	if b.Append(1000) != nil || b.Prepend(126) != nil || b.Append(-1) != nil || b.Prepend(-1) != nil || b.TrimFront(9) || b.Truncate(9) || b.Head(126) != nil {
		t.Error("a change that does not fit was made")
	}
	if !b.TrimFront(3) || !b.Truncate(4) || string(b.Bytes()) != "hell" {
		t.Errorf("%q", b.Bytes())
	}
	tail := p.Get()
	copy(tail.Append(2), "oo")
	b.Chain(tail)
	if b.Segments() != 2 || b.PacketLen() != 6 || b.Next() != tail || b.Truncate(1) {
		t.Errorf("chain of %d segments, %d bytes", b.Segments(), b.PacketLen())
	}
	b.Free()
	if p.Free() != 4 {
		t.Errorf("%d of 4 buffers are free", p.Free())
	}
}

// TestCacheKeepsEveryBuffer moves buffers at random between a pool, two
// caches and the application.
func TestCacheKeepsEveryBuffer(t *testing.T) {
	p, other := newTestPool(t, 200, 256), newTestPool(t, 10, 256)
	rapid.Check(t, func(t *rapid.T) {
		caches := []*Cache{p.NewCache(8), p.NewCache(0)}
		var held []*Buf
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				dst := make([]*Buf, rapid.IntRange(0, 70).Draw(t, "n"))
				n := caches[rapid.IntRange(0, 1).Draw(t, "cache")].Get(dst)
				for _, b := range dst[:n] {
					b.Reset()
				}
				held = append(held, dst[:n]...)
			},
			"put": func(t *rapid.T) {
				n := rapid.IntRange(0, len(held)).Draw(t, "n")
				caches[rapid.IntRange(0, 1).Draw(t, "cache")].Put(held[len(held)-n:])
				held = held[:len(held)-n]
			},
			"chain": func(t *rapid.T) {
				if len(held) >= 2 {
					last := len(held) - 1
					held[0].Chain(held[last])
					held = held[:last]
				}
			},
			"foreign": func(t *rapid.T) {
				if b := other.Get(); b != nil {
					caches[0].Put([]*Buf{b})
				}
				if other.Free() != 10 {
					t.Fatal("a buffer of another pool stayed in the cache")
				}
			},
			"": func(t *rapid.T) {
				seen := map[*Buf]bool{}
				for _, b := range held {
					for ; b != nil; b = b.next {
						if seen[b] {
							t.Fatal("a buffer is held twice")
						}
						seen[b] = true
					}
				}
				if total := len(seen) + caches[0].n + caches[1].n + p.Free(); total != p.Size() {
					t.Fatalf("%d buffers of %d", total, p.Size())
				}
			},
		})
		for _, b := range held {
			b.Free()
		}
		for _, c := range caches {
			c.Flush()
		}
		if p.Free() != p.Size() {
			t.Fatalf("%d of %d buffers are free", p.Free(), p.Size())
		}
	})
}

func TestBuffersDoNotOverlap(t *testing.T) {
	p := newTestPool(t, 50, 300)
	bufs := make([]*Buf, 50)
	for i := range bufs {
		bufs[i] = p.Get()
		b := bufs[i].Append(172)
		for j := range b {
			b[j] = byte(i)
		}
	}
	for i, b := range bufs {
		if !bytes.Equal(b.Bytes(), bytes.Repeat([]byte{byte(i)}, 172)) {
			t.Errorf("buffer %d was written by another", i)
		}
		b.Free()
	}
}
