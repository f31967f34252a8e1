package driveronly

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// FrontendCommand is the name of the subcommand that runs Drive.
const FrontendCommand = "driver-frontend"

// Loop is a front end without a program around it: it sends, or receives, as fast as
// it can, and touches no data.
type Loop struct {
	Socket          string
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
	l.Burst = max(l.Burst, 1)
	l.Pairs = max(l.Pairs, 1)
	l.Segments = max(l.Segments, 1)
	if l.RingSize == 0 {
		l.RingSize = 256
	}
}

// Drive runs the loop until ctx ends.
func Drive(ctx context.Context, l Loop) error {
	l.setDefaults()
	front, err := vhost.DialContext(ctx, l.Socket, vhost.FrontendConfig{Queues: l.Pairs, QueueSize: l.RingSize})
	if err != nil {
		return err
	}
	p, err := driver.Open(front, driver.Options{NoPacked: !l.Packed, InOrder: l.InOrder, NoMergeable: !l.Mergeable, NoSimpleTx: l.Standard})
	if err != nil {
		return err
	}
	defer p.Close()
	count := max(l.Buffers, 4*l.Pairs*l.RingSize) + 2*l.Pairs*l.RingSize + 2048
	rings, err := p.RingMemory(l.Pairs)
	if err != nil {
		return err
	}
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + rings + 1<<20})
	if err != nil {
		return err
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		return err
	}
	cfg := port.Config{Pool: pool, RxQueues: l.Pairs, TxQueues: l.Pairs}
	if l.Standard && l.Receive {
		cfg.RxOffloads = port.RxTCPCksum
	}
	if err := p.Configure(cfg); err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	return l.loop(ctx, p, pool)
}

// loop drives the queues.
func (l *Loop) loop(ctx context.Context, p port.Port, pool *mbuf.Pool) error {
	runtime.LockOSThread()
	cache := pool.NewCache(0)
	defer cache.Flush()
	var round func() error
	if l.Receive {
		round = l.receiver(p, cache)
	} else {
		round = l.sender(p, cache)
	}
	for ctx.Err() == nil {
		for range 1000 {
			if err := round(); err != nil {
				return err
			}
		}
	}
	return nil
}

// receiver receives a burst on each queue and frees it.
func (l *Loop) receiver(p port.Port, cache *mbuf.Cache) func() error {
	pkts, delay := make([]*mbuf.Buf, l.Burst), newDelay(l.Buffers)
	queues := make([]port.RxQueue, l.Pairs)
	for i := range queues {
		queues[i] = p.RxQueue(i)
		queues[i].UseCache(cache)
	}
	return func() error {
		for _, q := range queues {
			n := q.Burst(pkts)
			if n == 0 {
				if err := q.Err(); err != nil {
					return err
				}
				continue
			}
			cache.Put(delay.swap(pkts[:n]))
		}
		return nil
	}
}

// sender sends a burst on each queue.
func (l *Loop) sender(p port.Port, cache *mbuf.Cache) func() error {
	segs, pkts, delay := make([]*mbuf.Buf, l.Burst*l.Segments), make([]*mbuf.Buf, l.Burst), newDelay(l.Buffers)
	queues := make([]port.TxQueue, l.Pairs)
	for i := range queues {
		queues[i] = p.TxQueue(i)
		queues[i].UseCache(cache)
	}
	return func() error {
		for _, q := range queues {
			n := cache.Get(segs)
			fresh := delay.swap(segs[:n])
			packets := l.build(fresh, pkts)
			sent := q.Burst(pkts[:packets])
			if sent < packets {
				cache.Put(pkts[sent:packets])
				if err := q.Err(); err != nil {
					return err
				}
			}
		}
		return nil
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

// Arguments is the command line of the subcommand that drives the loop.
func (l Loop) Arguments() []string {
	argv := []string{"bench", FrontendCommand, "--socket", l.Socket}
	for _, f := range []struct {
		name string
		on   bool
	}{{"receive", l.Receive}, {"packed", l.Packed}, {"in-order", l.InOrder}, {"mergeable", l.Mergeable}, {"standard", l.Standard}} {
		if f.on {
			argv = append(argv, "--"+f.name)
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"burst", l.Burst}, {"ring-size", l.RingSize}, {"pairs", l.Pairs}, {"buffers", l.Buffers}, {"segments", l.Segments}} {
		argv = append(argv, fmt.Sprintf("--%s=%d", f.name, f.value))
	}
	return argv
}

// settle is how long a front end may take until it has moved what the back end needs.
const settle = 10 * time.Second
