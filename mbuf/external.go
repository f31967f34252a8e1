package mbuf

import (
	"fmt"
	"sync/atomic"
)

// External is memory that packets are made of without a copy and that no pool
// owns: an application's own, in an area that devices reach. It counts who uses
// it, and calls a function once nobody does. DPDK calls such memory an external
// buffer.
//
// Its methods may be called from any goroutine.
type External struct {
	pool  Pool // what attached buffers are freed to: see takeBack
	bytes []byte
	iova  uint64
	area  *Registration // nil: memory of the Memory's own
	refs  atomic.Int64
	free  func()
}

// NewExternal makes External memory of b, which lies in m: in a registered area,
// or in a Zone. The caller holds one reference, which Release gives up. When
// that and all that was attached is gone, free is called, once, on the goroutine
// that freed the last packet; it must be quick, and must not transmit.
func (m *Memory) NewExternal(b []byte, free func()) (*External, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("mbuf: external memory of no bytes")
	}
	region, area, err := m.locate(b)
	if err != nil {
		return nil, fmt.Errorf("mbuf: external memory: %w", err)
	}
	e := &External{bytes: b, iova: region.IOVA + uint64(addrOf(b)-region.Addr()), area: area, free: free}
	e.pool.name, e.pool.external = "external", e
	e.refs.Store(1)
	if area != nil {
		area.users.Add(1)
	}
	return e, nil
}

// Bytes is the memory.
func (e *External) Bytes() []byte { return e.bytes }

// Attach makes b, an empty packet fresh from its pool, a packet of one segment:
// the n bytes from off on of the memory, at most 65535. There is no room on
// either side of the data, so that nothing is ever written outside of it;
// TrimFront makes room, for the virtio-net header say, of data. It reports
// whether e has such bytes.
//
// Freed, by whoever and in whatever way, b is again what it was and goes back to
// its own pool. Until then the bytes may be read by a device.
func (e *External) Attach(b *Buf, off, n int) bool {
	if off < 0 || n < 0 || n > maxBufSize || off > len(e.bytes)-n {
		return false
	}
	e.refs.Add(1)
	b.home = home{mem: b.mem, iova: b.iova, pool: b.pool}
	b.mem, b.iova, b.pool = e.bytes[off:off+n:off+n], e.iova+uint64(off), &e.pool
	b.SetReceived(0, n)
	return true
}

// home is what a buffer is without the memory attached to it.
type home struct {
	mem  []byte
	iova uint64
	pool *Pool
}

// takeBack detaches the memory from buffers that were freed.
func (e *External) takeBack(bufs []*Buf) {
	for _, b := range bufs {
		h := b.home
		b.mem, b.iova, b.pool = h.mem, h.iova, h.pool
		b.home = home{}
	}
	for rest := bufs; len(rest) > 0; {
		n := plain(rest[0].pool, rest)
		rest[0].pool.give(rest[:n])
		rest = rest[n:]
	}
	e.drop(int64(len(bufs)))
}

// Release gives up the caller's reference. Attach must not be called any more.
func (e *External) Release() { e.drop(1) }

func (e *External) drop(n int64) {
	if e.refs.Add(-n) != 0 {
		return
	}
	if e.free != nil {
		e.free()
	}
	if e.area != nil {
		e.area.users.Add(-1) // Unregister may go on
	}
}
