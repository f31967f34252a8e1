package ring

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Who sees what a release store stored sees all that was written before it.
func TestReleaseStore(t *testing.T) {
	const rounds = 100_000
	var data [2]int
	var word32 uint32
	var word64 uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint32(rounds) {
			for atomic.LoadUint64(&word64) != uint64(i) {
			}
			data[0], data[1] = int(i), -int(i)
			ReleaseStore32(&word32, i+1)
		}
	})
	for i := range uint64(rounds) {
		for atomic.LoadUint32(&word32) != uint32(i)+1 {
		}
		if data != [2]int{int(i), -int(i)} {
			t.Fatalf("round %d: saw %v", i, data)
		}
		ReleaseStore64(&word64, i+1)
	}
	wg.Wait()
}
