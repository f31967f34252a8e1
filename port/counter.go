package port

import (
	"sync/atomic"

	"vionet/ring"
)

// Counter counts what one goroutine at a time does. It costs that goroutine no
// fence, as an atomic.Uint64 would in each burst.
type Counter struct{ n, zero uint64 }

// Add counts n more. It belongs to the goroutine that counts.
func (c *Counter) Add(n uint64) { ring.ReleaseStore64(&c.n, atomic.LoadUint64(&c.n)+n) }

// Load is what was counted since the last Reset; any goroutine may call it.
func (c *Counter) Load() uint64 {
	zero := atomic.LoadUint64(&c.zero)
	return atomic.LoadUint64(&c.n) - zero
}

// Reset begins at 0 again; any goroutine may call it, also while another counts.
func (c *Counter) Reset() { atomic.StoreUint64(&c.zero, atomic.LoadUint64(&c.n)) }
