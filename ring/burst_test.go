package ring

import (
	"fmt"
	"testing"
)

// A Take ends before a chain that the pieces left have no room for, and the
// chain is the first of the next one.
func TestTakeEndsWhenPiecesDo(t *testing.T) {
	for _, packed := range []bool{false, true} {
		s := newSides(t, packed, 8, Options{}, false)
		heads := make([]uint16, 3)
		s.drv.AddChains(make([]Segment, 7), []uint16{2, 3, 2}, heads)
		s.drv.Publish()
		chains, pieces := make([]Chain, 8), make([]Piece, 5)
		if n := s.dev.Take(chains, pieces); n != 2 || s.dev.Err() != nil {
			t.Fatalf("packed=%v: Take = %d, %v, want 2", packed, n, s.dev.Err())
		}
		if chains[0] != (Chain{heads[0], 2}) || chains[1] != (Chain{heads[1], 3}) {
			t.Errorf("packed=%v: chains %v of heads %v", packed, chains[:2], heads)
		}
		if n := s.dev.Take(chains, pieces); n != 1 || chains[0] != (Chain{heads[2], 2}) {
			t.Errorf("packed=%v: Take = %d, %v, want the third chain", packed, n, chains[0])
		}
		s.dev.Return(3)
		if n := s.dev.Take(chains, pieces[:1]); n != 0 || s.dev.Err() == nil {
			t.Errorf("packed=%v: Take = %d, %v, want a broken ring", packed, n, s.dev.Err())
		}
	}
}

func TestPackedDeviceAllocatesNothing(t *testing.T) {
	for _, packed := range []bool{false, true} {
		s := newSides(t, packed, 64, Options{EventIdx: true}, false)
		segs, heads, done := make([]Segment, 32), make([]uint16, 32), make([]Completion, 32)
		chains, pieces := make([]Chain, 32), make([]Piece, 32)
		allocs := testing.AllocsPerRun(100, func() {
			s.drv.AddEach(segs, DescWrite, heads)
			s.drv.Publish()
			if echoBurst(s.dev, chains, pieces, done) != 32 {
				t.Fatal(s.dev.Err())
			}
			s.dev.Notify(true)
			if s.drv.Harvest(done) != 32 {
				t.Fatal(s.drv.Err())
			}
		})
		if allocs != 0 {
			t.Errorf("packed=%v: %v allocations a burst", packed, allocs)
		}
	}
}

// echoBurst takes chains, one piece each, and gives them back with 64 bytes.
func echoBurst(dev Device, chains []Chain, pieces []Piece, done []Completion) int {
	n := dev.Take(chains, pieces)
	for i, c := range chains[:n] {
		done[i] = Completion{Head: c.Head, Len: 64}
	}
	dev.Complete(done[:n])
	dev.Flush()
	return n
}

// BenchmarkDevices moves bursts of 32 chains of one piece, both sides together.
func BenchmarkDevices(b *testing.B) {
	for _, packed := range []bool{false, true} {
		b.Run(fmt.Sprintf("packed=%v", packed), func(b *testing.B) {
			s := newSides(b, packed, 256, Options{}, false)
			segs, heads, done := make([]Segment, 32), make([]uint16, 32), make([]Completion, 32)
			chains, pieces := make([]Chain, 32), make([]Piece, 32)
			b.ReportAllocs()
			for n := 0; n < b.N; n += 32 {
				s.drv.AddEach(segs, DescWrite, heads)
				s.drv.Publish()
				echoBurst(s.dev, chains, pieces, done)
				s.drv.Harvest(done)
			}
		})
	}
}
