package mbuf

// DefaultCacheSize is the number of buffers that a Cache keeps by default.
const DefaultCacheSize = 256

// Cache is a stack of free buffers in front of a Pool. One goroutine owns it;
// the pool's lock is taken once for every half cache of buffers, not for each
// packet. A last-in-first-out order keeps the buffers in use few and warm in
// the processor's cache.
type Cache struct {
	pool *Pool
	bufs []*Buf
	n    int
}

// NewCache makes an empty cache that holds up to size buffers (at least 2;
// DefaultCacheSize if 0), but no more than an eighth of the pool: what one
// goroutine hoards is missing elsewhere.
func (p *Pool) NewCache(size int) *Cache {
	if size == 0 {
		size = DefaultCacheSize
	}
	size = min(size, p.size/8)
	return &Cache{pool: p, bufs: make([]*Buf, max(size, 2))}
}

// Pool is the pool behind the cache.
func (c *Cache) Pool() *Pool { return c.pool }

// Get fills dst with buffers and returns how many there were. Their data
// window and flags are those of their last use: a port sets them with
// SetReceived, an application calls Reset.
func (c *Cache) Get(dst []*Buf) int {
	if c.n < len(dst) {
		c.refill(len(dst))
	}
	n := min(len(dst), c.n)
	c.n -= n
	copy(dst[:n], c.bufs[c.n:c.n+n])
	if n < len(dst) {
		n += c.pool.take(dst[n:])
	}
	return n
}

// refill brings the cache to at least want buffers, as far as it can hold
// them and the pool has them, and to half its size for the next calls.
func (c *Cache) refill(want int) {
	want = min(max(want, len(c.bufs)/2), len(c.bufs))
	if want > c.n {
		c.n += c.pool.take(c.bufs[c.n:want])
	}
}

// Put frees the packets in src, chains as a whole. Buffers of another pool go
// back to that one.
func (c *Cache) Put(src []*Buf) {
	for len(src) > 0 {
		n := plain(c.pool, src)
		if n == 0 {
			src = src[c.putOther(src):]
			continue
		}
		if c.n == len(c.bufs) {
			c.spill()
		}
		n = copy(c.bufs[c.n:], src[:n])
		c.n += n
		src = src[n:]
	}
}

// plain is the number of packets at the front of src that are single buffers of
// that pool: those that can be moved as they are.
func plain(p *Pool, src []*Buf) int {
	for i, b := range src {
		if b.next != nil || b.pool != p {
			return i
		}
	}
	return len(src)
}

// putOther frees packets at the front of src that Put can't keep, and returns
// how many: single buffers of one other pool, or a chain.
func (c *Cache) putOther(src []*Buf) int {
	other := src[0].pool
	if n := plain(other, src); n > 0 && other != c.pool {
		other.give(src[:n])
		return n
	}
	c.putChain(src[0])
	return 1
}

// putChain frees a packet buffer by buffer.
func (c *Cache) putChain(b *Buf) {
	for b != nil {
		next := b.next
		b.next = nil
		if b.pool == c.pool {
			c.Put([]*Buf{b})
		} else {
			b.pool.Put(b)
		}
		b = next
	}
}

// spill gives the older half of the cache to the pool and keeps the warm one.
func (c *Cache) spill() {
	half := len(c.bufs) / 2
	c.pool.give(c.bufs[:half])
	copy(c.bufs, c.bufs[half:c.n])
	c.n -= half
}

// Flush gives every buffer in the cache back to the pool.
func (c *Cache) Flush() {
	c.pool.give(c.bufs[:c.n])
	c.n = 0
}
