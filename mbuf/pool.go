package mbuf

import (
	"fmt"
	"sync"
)

// Pool is a fixed number of buffers of one size. Its methods may be called
// from any goroutine.
type Pool struct {
	name  string
	size  int
	room  int
	mu    sync.Mutex
	free  []*Buf
	zones []Zone
	mem   *Memory
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
	p := &Pool{name: cfg.Name, size: cfg.Count, room: cfg.BufSize, mem: mem}
	stride := Stride(cfg.BufSize)
	perZone := cfg.Count
	if limit := mem.maxAlloc(); limit > 0 {
		perZone = min(perZone, limit/stride)
	}
	if perZone == 0 {
		return nil, fmt.Errorf("mbuf: a buffer of %d bytes does not fit in one page of %d: use hugepages", cfg.BufSize, mem.pageSize)
	}
	bufs := make([]Buf, cfg.Count)
	p.free = make([]*Buf, 0, cfg.Count)
	for done := 0; done < cfg.Count; {
		n := min(perZone, cfg.Count-done)
		z, err := mem.Alloc(n*stride, cacheLine)
		if err != nil {
			p.release()
			return nil, fmt.Errorf("mbuf: pool %s: %w", cfg.Name, err)
		}
		p.zones = append(p.zones, z)
		for i := range n {
			b := &bufs[done+i]
			b.mem = z.Bytes[i*stride : i*stride+cfg.BufSize : i*stride+cfg.BufSize]
			b.iova = z.IOVA + uint64(i*stride)
			b.pool = p
			b.Reset()
			p.free = append(p.free, b)
		}
		done += n
	}
	return p, nil
}

// Stride is the memory in bytes that a buffer of bufSize bytes takes.
func Stride(bufSize int) int { return (bufSize + cacheLine - 1) &^ (cacheLine - 1) }

// Name is the pool's name.
func (p *Pool) Name() string { return p.name }

// Size is the number of buffers that the pool was made with.
func (p *Pool) Size() int { return p.size }

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
	p.mu.Lock()
	p.free = append(p.free, src...)
	p.mu.Unlock()
}

// Close gives the pool's memory back. It fails, with nothing changed, while
// a buffer is still held by somebody.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out := p.size - len(p.free); out > 0 {
		return fmt.Errorf("mbuf: pool %s: %d buffers are still in use: close the ports and free the packets first", p.name, out)
	}
	p.release()
	return nil
}

func (p *Pool) release() {
	for _, z := range p.zones {
		p.mem.Free(z)
	}
	p.zones, p.free, p.size = nil, nil, 0
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
