package ring

import (
	"slices"
	"testing"
)

// TestAddRequest goes round small rings with requests of two and three pieces.
func TestAddRequest(t *testing.T) {
	for _, packed := range []bool{false, true} {
		const size = 8
		r := newModelRig(t, packed, size, size, Options{}, false)
		done := make([]Completion, 4)
		for i := range 100 {
			pieces := []Segment{{Addr: 0x1000, Len: 2}, {Addr: 0x2000 + uint64(i), Len: 5}, {Addr: 0x3000, Len: 1}}[:2+i%2]
			head := r.drv.AddRequest(pieces)
			if got := r.drv.Free(); got != size-len(pieces) {
				t.Fatalf("packed %v, request %d: %d descriptors free", packed, i, got)
			}
			if _, ok := r.dev.take(); ok {
				t.Fatalf("packed %v, request %d: seen before it was published", packed, i)
			}
			r.drv.Publish()
			c, ok := r.dev.take()
			if !ok || c.head != head || !slices.Equal(c.segs, pieces) || !c.write {
				t.Fatalf("packed %v, request %d: the device sees %+v, %v", packed, i, c, ok)
			}
			r.dev.use([]modelChain{c}, false)
			if n := r.drv.Harvest(done); n != 1 || done[0].Head != head || r.drv.Free() != size {
				t.Fatalf("packed %v, request %d: %d completions, %d free", packed, i, n, r.drv.Free())
			}
		}
	}
}
