package mbuf

import (
	"fmt"
	"sync"
)

// Pool is a number of buffers of one size, which only Grow changes. Its methods
// may be called from any goroutine.
type Pool struct {
	name  string
	size  int // buffers that it was made with
	room  int
	mem   *Memory
	mu    sync.Mutex
	total int // buffers now; 0 when the pool is closed
	free  []*Buf
	zones []Zone

	external *External // its buffers go back to their own pools; nil: they stay here
	fixed    bool      // the buffers are over memory that the pool did not choose
}

// PoolConfig says what a pool holds.
type PoolConfig struct {
	Name    string // shown to people; "mb_pool_0" if empty
	Count   int    // buffers
	BufSize int    // bytes of each, headroom included; 0: DefaultSize
}

// maxBufSize keeps offsets and lengths within a buffer in 16 bits.
const maxBufSize = 65535

// NewPool cuts cfg.Count buffers out of mem. The error names what to change
// when mem is too small.
func NewPool(mem *Memory, cfg PoolConfig) (*Pool, error) {
	if cfg.BufSize == 0 {
		cfg.BufSize = DefaultSize
	}
	if cfg.Name == "" {
		cfg.Name = "mb_pool_0"
	}
	if cfg.BufSize <= Headroom || cfg.BufSize > maxBufSize {
		return nil, fmt.Errorf("mbuf: buffer size %d: must be more than the headroom of %d and at most %d", cfg.BufSize, Headroom, maxBufSize)
	}
	if cfg.Count <= 0 {
		return nil, fmt.Errorf("mbuf: pool %s of %d buffers: must have at least one", cfg.Name, cfg.Count)
	}
	p := &Pool{name: cfg.Name, size: cfg.Count, total: cfg.Count, room: cfg.BufSize, mem: mem}
	var err error
	if p.free, p.zones, err = p.carve(cfg.Count); err != nil {
		return nil, err
	}
	return p, nil
}

// carve cuts n more buffers out of the memory, in as many zones as it takes.
func (p *Pool) carve(n int) (bufs []*Buf, zones []Zone, err error) {
	stride := Stride(p.room)
	store := newBufs(n)
	bufs = make([]*Buf, 0, n)
	for len(bufs) < n {
		z, err := p.mem.allocUnits(stride, n-len(bufs))
		if err != nil {
			p.freeZones(zones)
			return nil, nil, fmt.Errorf("mbuf: pool %s: %d buffers wanted, %d fit: %w", p.name, n, len(bufs), err)
		}
		zones = append(zones, z)
		for at := 0; at < len(z.Bytes); at += stride {
			b := &store[len(bufs)]
			b.mem = z.Bytes[at : at+p.room : at+p.room]
			b.iova = z.IOVA + uint64(at)
			b.pool = p
			b.Reset()
			bufs = append(bufs, b)
		}
	}
	return bufs, zones, nil
}

// Stride is the memory in bytes that a buffer of bufSize bytes takes.
func Stride(bufSize int) int { return (bufSize + cacheLine - 1) &^ (cacheLine - 1) }

// Name is the pool's name.
func (p *Pool) Name() string { return p.name }

// Size is the number of buffers that belong to the pool now.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// BufSize is the size of each buffer in bytes, headroom included.
func (p *Pool) BufSize() int { return p.room }

// Memory is the memory that the buffers lie in.
func (p *Pool) Memory() *Memory { return p.mem }

// Free is the number of buffers in the pool now. Those in caches are not
// counted; a port flushes its caches when it stops.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}

// Get takes one buffer, reset to an empty packet, or nil when the pool is
// empty.
func (p *Pool) Get() *Buf {
	var one [1]*Buf
	if p.take(one[:]) == 0 {
		return nil
	}
	one[0].Reset()
	return one[0]
}

// Put gives one buffer back; it must be a buffer of this pool and not part
// of a chain.
func (p *Pool) Put(b *Buf) {
	if p.external != nil {
		p.external.takeBack([]*Buf{b})
		return
	}
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}

// take fills dst from the top of the stack and returns how many it took.
func (p *Pool) take(dst []*Buf) int {
	p.mu.Lock()
	n := min(len(dst), len(p.free))
	rest := len(p.free) - n
	copy(dst[:n], p.free[rest:])
	p.free = p.free[:rest]
	p.mu.Unlock()
	return n
}

// give puts all of src on top of the stack.
func (p *Pool) give(src []*Buf) {
	if p.external != nil {
		p.external.takeBack(src)
		return
	}
	p.mu.Lock()
	p.free = append(p.free, src...)
	p.mu.Unlock()
}

// Close gives the pool's memory back. It fails, with nothing changed, while
// a buffer is still held by somebody.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out := p.total - len(p.free); out > 0 {
		return fmt.Errorf("mbuf: pool %s: %d buffers are still in use: close the ports and free the packets first", p.name, out)
	}
	p.freeZones(p.zones)
	p.zones, p.free, p.total = nil, nil, 0
	return nil
}

func (p *Pool) freeZones(zones []Zone) {
	for _, z := range zones {
		p.mem.Free(z)
	}
}

// PoolMemory is the device memory in bytes that a pool of count buffers of
// bufSize bytes takes: with physical addresses no buffer crosses a hugepage.
func PoolMemory(mode IOVAMode, count, bufSize int) int {
	if bufSize == 0 {
		bufSize = DefaultSize
	}
	stride := Stride(bufSize)
	if mode != IOVAPhysical {
		return count*stride + cacheLine
	}
	perPage := max(hugePageSize/stride, 1)
	return roundUp(count, perPage) / perPage * hugePageSize
}
