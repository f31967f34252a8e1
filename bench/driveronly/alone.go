package driveronly

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"vionet/bench/peer"
	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// Loop is a driver without a program around it: it sends, or receives, as fast as it
// can, and touches no data.
type Loop struct {
	Receive         bool // or else send
	Packed, InOrder bool
	Mergeable       bool // receive buffers
	Standard        bool // the standard path in place of the simple one
	Burst           int  // packets at a time; 0: 32
	RingSize        int  // descriptors of a queue; 0: 256
	Pairs           int  // queue pairs, driven in turn; 0: 1
	Buffers         int  // all of them are used, one after the other; 0: those that were just freed
	Segments        int  // of each packet that is sent; 0: 1
}

// frameLen is the length of a frame in bytes, without its check sequence.
const frameLen = 60

func (l *Loop) setDefaults() {
	if l.Burst == 0 {
		l.Burst = 32
	}
	l.Pairs = max(l.Pairs, 1)
	l.Segments = max(l.Segments, 1)
	if l.RingSize == 0 {
		l.RingSize = 256
	}
}

// alone is a loop and its back end in one goroutine, which drives them in turn: what
// they share stays in the caches of one processor. Only the driver's turns are timed.
type alone struct {
	Loop
	core    int
	backend *vhost.Backend
	sink    *sink
	port    *driver.Device
	mem     *mbuf.Memory
	pool    *mbuf.Pool
	round   func(*mbuf.Cache) (packets int, err error)
}

// open makes the loop and its back end, with the socket in dir.
func (l Loop) open(ctx context.Context, dir string, core int) (_ *alone, err error) {
	l.setDefaults()
	a := &alone{Loop: l, core: core}
	defer func() {
		if err != nil {
			a.Kill()
		}
	}()
	socket := filepath.Join(dir, fmt.Sprintf("alone%d.sock", sockets.Add(1)))
	if a.backend, err = vhost.Listen(socket, vhost.BackendConfig{Pairs: l.Pairs, Packed: true}); err != nil {
		return nil, err
	}
	a.sink = newSink(a.backend)
	front, err := vhost.DialContext(ctx, socket, vhost.FrontendConfig{Queues: l.Pairs, QueueSize: l.RingSize})
	if err != nil {
		return nil, err
	}
	a.port, err = driver.Open(front, driver.Options{NoPacked: !l.Packed, InOrder: l.InOrder, NoMergeable: !l.Mergeable, NoSimpleTx: l.Standard})
	if err != nil {
		return nil, err
	}
	if err := a.start(); err != nil {
		return nil, err
	}
	if l.Receive {
		a.round = l.receiver(a.port)
	} else {
		a.round = l.sender(a.port)
	}
	return a, nil
}

// sockets counts the sockets of loops, for their names.
var sockets atomic.Int32

// start gives the port what it needs, and starts it.
func (a *alone) start() error {
	// The rings can be full, and the caches, and the program holds some.
	count := a.Buffers + 8*a.Pairs*a.RingSize + 2048
	rings, err := a.port.RingMemory(a.Pairs)
	if err != nil {
		return err
	}
	if a.mem, err = mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + rings + 1<<20}); err != nil {
		return err
	}
	if a.pool, err = mbuf.NewPool(a.mem, mbuf.PoolConfig{Count: count}); err != nil {
		return err
	}
	cfg := port.Config{Pool: a.pool, RxQueues: a.Pairs, TxQueues: a.Pairs}
	if a.Standard && a.Receive {
		cfg.RxOffloads = port.RxTCPCksum
	}
	if err := a.port.Configure(cfg); err != nil {
		return err
	}
	return a.port.Start()
}

// Kill ends the loop.
func (a *alone) Kill() {
	if a.port != nil {
		a.port.Close()
	}
	if a.backend != nil {
		a.backend.Close()
	}
	if a.mem != nil {
		a.mem.Close()
	}
}

// fillTries bounds how often a loop is tried until packets move.
const fillTries = 1000

// Measure drives the loop for a quarter of a window: one processor by itself is steady.
func (a *alone) Measure(_ context.Context, window time.Duration) (s Sample, err error) {
	window /= 4
	leave, err := peer.OnCore(a.core)
	if err != nil {
		return s, err
	}
	defer leave()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	cache := a.pool.NewCache(0)
	defer cache.Flush()
	// Buffers that are held back fill their circle first.
	for moved, tries := 0, 0; moved == 0 && tries < fillTries; tries++ {
		if moved, _, err = a.drive(cache, window/10); err != nil {
			return s, err
		}
	}
	packets, took, err := a.drive(cache, window)
	if err == nil && packets == 0 {
		err = fmt.Errorf("the driver alone: no packet moved in %v", window)
	}
	return Sample{Cost: float64(took) / float64(packets), Idle: 1}, err
}

// drive lets driver and back end work in turn for a while, and gives the packets that
// moved and the time that the driver took. A turn is half of what a ring holds.
func (a *alone) drive(cache *mbuf.Cache, window time.Duration) (packets int, took time.Duration, err error) {
	a.use(cache)
	rounds := max(a.RingSize/(2*a.Burst*a.Segments), 1)
	for begin := time.Now(); ; {
		a.sink.pass()
		before := time.Now()
		if before.Sub(begin) >= window {
			return packets, took, nil
		}
		for range rounds {
			n, err := a.round(cache)
			if err != nil {
				return packets, took, err
			}
			packets += n
		}
		took += time.Since(before)
	}
}

// use has all queues take their buffers from the cache.
func (a *alone) use(cache *mbuf.Cache) {
	for i := range a.Pairs {
		a.port.RxQueue(i).UseCache(cache)
		a.port.TxQueue(i).UseCache(cache)
	}
}

// receiver receives a burst on each queue and frees it.
func (l Loop) receiver(p port.Port) func(*mbuf.Cache) (int, error) {
	pkts, delay := make([]*mbuf.Buf, l.Burst), newDelay(l.Buffers)
	return func(cache *mbuf.Cache) (packets int, err error) {
		for i := range l.Pairs {
			q := p.RxQueue(i)
			n := q.Burst(pkts)
			if n == 0 && q.Err() != nil {
				return packets, q.Err()
			}
			cache.Put(delay.swap(pkts[:n]))
			packets += n
		}
		return packets, nil
	}
}

// sender sends a burst on each queue.
func (l Loop) sender(p port.Port) func(*mbuf.Cache) (int, error) {
	segs, pkts, delay := make([]*mbuf.Buf, l.Burst*l.Segments), make([]*mbuf.Buf, l.Burst), newDelay(l.Buffers)
	return func(cache *mbuf.Cache) (packets int, err error) {
		for i := range l.Pairs {
			q := p.TxQueue(i)
			built := l.build(delay.swap(segs[:cache.Get(segs)]), pkts)
			sent := q.Burst(pkts[:built])
			cache.Put(pkts[sent:built])
			if sent < built && q.Err() != nil {
				return packets, q.Err()
			}
			packets += sent
		}
		return packets, nil
	}
}

// build makes packets of buffers, and gives their number.
func (l *Loop) build(bufs, pkts []*mbuf.Buf) (n int) {
	if l.Segments == 1 {
		for _, b := range bufs {
			b.Renew(frameLen)
		}
		return copy(pkts, bufs)
	}
	for ; len(bufs) >= l.Segments; n++ {
		head, last := bufs[0], bufs[0]
		head.Renew(frameLen)
		for _, b := range bufs[1:l.Segments] {
			b.Renew(frameLen)
			head.Link(last, b)
			last = b
		}
		pkts[n], bufs = head, bufs[l.Segments:]
	}
	return n
}

// delay holds buffers back, first in, first out, so that a program goes through many
// of them.
type delay struct {
	held []*mbuf.Buf // a circle; nil: none are held
	at   int
}

func newDelay(n int) *delay { return &delay{held: make([]*mbuf.Buf, n)} }

// swap puts buffers in and gives as many that have waited longest, in their place; at
// first there are fewer.
func (d *delay) swap(bufs []*mbuf.Buf) []*mbuf.Buf {
	if len(d.held) == 0 {
		return bufs
	}
	n := 0
	for _, b := range bufs {
		old := d.held[d.at]
		d.held[d.at] = b
		if d.at++; d.at == len(d.held) {
			d.at = 0
		}
		if old != nil {
			bufs[n] = old
			n++
		}
	}
	return bufs[:n]
}
