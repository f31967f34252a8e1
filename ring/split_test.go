package ring

import (
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func newTestSplit(t interface{ Fatal(...any) }, size, limit int) (*Split, SplitLayout, []byte) {
	l, err := NewSplitLayout(size)
	if err != nil {
		t.Fatal(err)
	}
	// Go aligns a large allocation to a page.
	mem := make([]byte, max(l.Total, 1<<16))
	r, err := NewSplit(size, limit, mem[:l.DescLen()], mem[l.AvailOff:l.AvailOff+l.AvailLen], mem[l.UsedOff:l.UsedOff+l.UsedLen], Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r, l, mem
}

func TestSplitLayoutOfTheSpecification(t *testing.T) {
	// Lengths by virtio 1.2, section 2.7: 16*size, 6+2*size, 6+8*size, here
	// rounded up to whole 32-bit words.
	tests := []struct{ size, availLen, usedOff, usedLen int }{
		{1, 8, 4096, 16},
		{8, 24, 4096, 72},
		{256, 520, 8192, 2056},
		{32768, 65544, 593920, 262152},
	}
	for _, tt := range tests {
		l, err := NewSplitLayout(tt.size)
		if err != nil {
			t.Fatal(err)
		}
		if l.DescLen() != 16*tt.size || l.AvailOff != 16*tt.size || l.AvailLen != tt.availLen || l.UsedOff != tt.usedOff || l.UsedLen != tt.usedLen || l.Total != tt.usedOff+tt.usedLen {
			t.Errorf("size %d: %+v", tt.size, l)
		}
	}
	for _, size := range []int{-1, 0, 3, 100, 32769, 65536} {
		if _, err := NewSplitLayout(size); err == nil {
			t.Errorf("size %d was accepted", size)
		}
	}
}

func TestNewSplitChecksItsArguments(t *testing.T) {
	l, _ := NewSplitLayout(8)
	mem := make([]byte, 1<<16)
	desc, avail, used := mem[:l.DescLen()], mem[l.AvailOff:l.AvailOff+l.AvailLen], mem[l.UsedOff:l.UsedOff+l.UsedLen]
	for _, limit := range []int{0, 9} {
		if _, err := NewSplit(8, limit, desc, avail, used, Options{}); err == nil {
			t.Errorf("limit %d of 8 was accepted", limit)
		}
	}
	if _, err := NewSplit(8, 8, desc[1:], avail, used, Options{}); err == nil {
		t.Error("a short descriptor area was accepted")
	}
}

func TestAddWritesWhatTheDeviceReads(t *testing.T) {
	r, l, mem := newTestSplit(t, 8, 8)
	var heads [5]uint16
	r.AddEach([]Segment{{0x1122334455667788, 0x99aabbcc}}, DescWrite, heads[:])
	r.AddChains([]Segment{{0x1000, 12}, {0x2000, 60}}, []uint16{2}, heads[1:])
	if word := binary.LittleEndian.Uint32(mem[l.AvailOff:]); word>>16 != 0 {
		t.Error("buffers are visible before Publish")
	}
	r.Publish()
	if word := binary.LittleEndian.Uint32(mem[l.AvailOff:]); word != 2<<16|1 {
		t.Errorf("available word %#x, want index 2 and NO_INTERRUPT", word)
	}
	desc := func(i int) [4]uint64 {
		d := mem[16*i:]
		return [4]uint64{binary.LittleEndian.Uint64(d), uint64(binary.LittleEndian.Uint32(d[8:])), uint64(binary.LittleEndian.Uint16(d[12:])), uint64(binary.LittleEndian.Uint16(d[14:]))}
	}
	for i, want := range [][4]uint64{{0x1122334455667788, 0x99aabbcc, 2, 0}, {0x1000, 12, 1, 2}, {0x2000, 60, 0, 0}} {
		if got := desc(i); got != want {
			t.Errorf("descriptor %d: %x, want %x", i, got, want)
		}
	}
	if a := binary.LittleEndian.Uint16(mem[l.AvailOff+4:]); a != 0 {
		t.Errorf("first available head %d", a)
	}
	if a := binary.LittleEndian.Uint16(mem[l.AvailOff+6:]); a != 1 {
		t.Errorf("second available head %d", a)
	}
}

// TestSplitAgainstAModel drives a ring with random chains and random
// completions and compares it with the obvious bookkeeping.
func TestSplitAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 6).Draw(t, "log2 size")
		limit := rapid.IntRange(1, size).Draw(t, "limit")
		r, l, mem := newTestSplit(t, size, limit)
		type chain struct{ head, n int }
		var owned []chain // by the device
		free, put := limit, 0
		added := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := rapid.IntRange(1, 4).Draw(t, "segments")
				if r.Free() != free {
					t.Fatalf("Free %d, want %d", r.Free(), free)
				}
				if n > free {
					return
				}
				next := int(r.NextHead())
				var heads [1]uint16
				if n == 1 {
					r.AddEach([]Segment{{uint64(added), 1}}, 0, heads[:])
				} else {
					r.AddChains(make([]Segment, n), []uint16{uint16(n)}, heads[:])
				}
				head := int(heads[0])
				if head != next {
					t.Fatalf("head %d, NextHead said %d", head, next)
				}
				for _, c := range owned {
					if c.head == head {
						t.Fatalf("head %d is the device's already", head)
					}
				}
				slot := l.AvailOff + 4 + 2*(added%size)
				if got := int(binary.LittleEndian.Uint16(mem[slot:])); got != head {
					t.Fatalf("available entry %d, want %d", got, head)
				}
				r.Publish()
				owned = append(owned, chain{head, n})
				added++
				free -= n
			},
			"complete": func(t *rapid.T) {
				if len(owned) == 0 {
					return
				}
				i := rapid.IntRange(0, len(owned)-1).Draw(t, "which")
				c := owned[i]
				owned = append(owned[:i], owned[i+1:]...)
				e := mem[l.UsedOff+4+8*(put%size):]
				binary.LittleEndian.PutUint32(e, uint32(c.head))
				binary.LittleEndian.PutUint32(e[4:], uint32(put))
				r.areas.usedWord.Store(uint32(put+1) << 16)
				var dst [3]Completion
				if n := r.Harvest(dst[:]); n != 1 || int(dst[0].Head) != c.head || dst[0].Len != uint32(put) {
					t.Fatalf("harvested %d: %+v, want head %d; %v", n, dst[0], c.head, r.Err())
				}
				put++
				free += c.n
			},
			"": func(t *rapid.T) {
				n := 0
				for range r.Outstanding() {
					n++
				}
				if n != len(owned) {
					t.Fatalf("%d chains outstanding, want %d", n, len(owned))
				}
			},
		})
	})
}

// FuzzSplitUsedRing lets a device write what it likes into the used ring.
func FuzzSplitUsedRing(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 12, 0, 0, 0}, uint32(1<<16))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255}, uint32(1<<16))
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}, uint32(2<<16|1))
	f.Add([]byte{}, uint32(0xffff0000))
	f.Fuzz(func(t *testing.T, used []byte, word uint32) {
		r, l, mem := newTestSplit(t, 8, 8)
		owned := map[uint16]bool{}
		var heads [5]uint16
		r.AddEach(make([]Segment, 5), 0, heads[:])
		for _, h := range heads {
			owned[h] = true
		}
		r.Publish()
		copy(mem[l.UsedOff+4:l.UsedOff+l.UsedLen], used)
		r.areas.usedWord.Store(word)
		var dst [16]Completion
		for {
			n := r.Harvest(dst[:])
			if n == 0 {
				break
			}
			for _, c := range dst[:n] {
				if !owned[c.Head] {
					t.Fatalf("head %d was harvested but not the device's", c.Head)
				}
				delete(owned, c.Head)
			}
		}
		if len(owned)+r.Free() != 8 {
			t.Fatalf("%d owned and %d free of 8 descriptors", len(owned), r.Free())
		}
		var rule *RuleError
		if err := r.Err(); err != nil && !errors.As(err, &rule) {
			t.Fatalf("Err is %T", err)
		}
	})
}
