package mbuf

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestAllocTakesWhatFitsBest(t *testing.T) {
	m := newTestMemory(t, 1<<16)
	var zones [6]Zone
	for i, size := range []int{1024, 64, 4096, 64, 2048, 64} {
		var err error
		if zones[i], err = m.Alloc(size, 64); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{0, 2, 4} {
		m.Free(zones[i])
	}
	for _, want := range []struct{ size, zone int }{{2000, 4}, {600, 0}, {3000, 2}, {1000, 2}} {
		z, err := m.Alloc(want.size, 8)
		if err != nil {
			t.Fatal(err)
		}
		old := zones[want.zone]
		if z.IOVA < old.IOVA || z.IOVA+uint64(want.size) > old.IOVA+uint64(len(old.Bytes)) {
			t.Errorf("%d bytes were not taken from the hole of %d", want.size, len(old.Bytes))
		}
	}
}

func TestFreeLeavesAloneWhatIsNotOut(t *testing.T) {
	m := newTestMemory(t, 1<<16)
	z, err := m.Alloc(4096, 64)
	if err != nil {
		t.Fatal(err)
	}
	m.Free(z)
	m.Free(z)
	m.Free(z.Slice(100, 200))
	m.Free(Zone{})
	m.Free(Zone{Bytes: make([]byte, 64), IOVA: z.IOVA})
	if got := m.areas[0].free; len(got) != 1 || got[0] != (span{0, 1 << 16}) {
		t.Errorf("free: %v", got)
	}
	m.Close()
	m.Free(z)
	if _, err := m.Alloc(64, 64); err == nil {
		t.Error("a closed memory gave something")
	}
}

// TestZonesDoNotOverlap allocates and frees at random, in memory that grows,
// and compares with a model: a byte for every zone, everywhere in it.
func TestZonesDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := NewMemory(MemoryConfig{Size: 1 << 16, NoHuge: true, IOVA: IOVARanges, Ranges: []AddrRange{{0, 1 << 20}, {1 << 32, 1<<32 + 1<<17 - 1}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		type held struct {
			Zone
			mark byte
		}
		var out []held
		mark := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				size := rapid.IntRange(1, 20000).Draw(t, "size")
				align := 1 << rapid.IntRange(0, 12).Draw(t, "align")
				z, err := m.Alloc(size, align)
				if errors.Is(err, ErrNoMemory) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(z.Bytes) != size || z.IOVA%uint64(align) != 0 || z.Addr()%uintptr(align) != 0 {
					t.Fatalf("%d bytes at %#x, want %d aligned to %d", len(z.Bytes), z.IOVA, size, align)
				}
				if !bytes.Equal(z.Bytes, make([]byte, size)) {
					t.Fatal("the zone is not zeroed")
				}
				mark++
				for i := range z.Bytes {
					z.Bytes[i] = mark
				}
				out = append(out, held{z, mark})
			},
			"free": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "zone")
				z := out[i].Zone
				z.Bytes = z.Bytes[:rapid.IntRange(1, len(z.Bytes)).Draw(t, "cut")]
				m.Free(z)
				out = append(out[:i], out[i+1:]...)
			},
			"grow": func(t *rapid.T) {
				if len(m.Regions()) < 4 {
					if _, err := m.Grow(rapid.IntRange(1, 30000).Draw(t, "size")); err != nil {
						t.Fatal(err)
					}
				}
			},
			"": func(t *rapid.T) {
				spans := 0
				for _, a := range m.areas {
					spans += len(a.free)
					for i, s := range a.free {
						if s.start >= s.end || i > 0 && a.free[i-1].end >= s.start {
							t.Fatalf("spans %v", a.free)
						}
					}
				}
				if spans > len(out)+len(m.areas) {
					t.Fatalf("%d spans are free beside %d zones", spans, len(out))
				}
				for _, z := range out {
					if bytes.Count(z.Bytes, []byte{z.mark}) != len(z.Bytes) {
						t.Fatal("a zone was written through another")
					}
				}
			},
		})
		for _, z := range out {
			m.Free(z.Zone)
		}
		for _, a := range m.areas {
			if len(a.free) != 1 || a.free[0] != (span{0, len(a.Bytes)}) {
				t.Fatalf("not all came back: %v of %d bytes", a.free, len(a.Bytes))
			}
		}
	})
}
