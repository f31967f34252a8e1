package port

import (
	"sync"
	"testing"
)

// What is counted while others read and reset is counted once.
func TestCounter(t *testing.T) {
	const adds = 200_000
	var c Counter
	var wg sync.WaitGroup
	wg.Go(func() {
		for range adds {
			c.Add(3)
		}
	})
	wg.Go(func() {
		for last := uint64(0); last < 3*adds; {
			n := c.Load()
			if n < last {
				t.Errorf("the counter went from %d back to %d", last, n)
				return
			}
			last = n
		}
	})
	wg.Wait()
	c.Reset()
	if n := c.Load(); n != 0 {
		t.Errorf("%d after a reset", n)
	}
	c.Add(5)
	if n := c.Load(); n != 5 {
		t.Errorf("%d after a reset and 5", n)
	}
}
