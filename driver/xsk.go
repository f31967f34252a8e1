package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"vionet/mbuf"
	"vionet/port"
)

// XSKConfig says what an XSK is like.
type XSKConfig struct {
	Queue int // the queue pair that it uses
	// TxSize and RxSize are the entries of the rings, powers of two; 0: there is
	// none. With an rx ring, all packets of the receive queue go there.
	TxSize, RxSize int
}

// XSK moves frames between the rings of a UMEM and a queue pair of a port: what
// a socket is in AF_XDP. It shares the queues with the bursts of ordinary
// packets; frames and packets leave in the order in which Poll and Burst took
// them.
//
// A frame that is received lies where the device wrote it when the port's
// configured pool is that of the UMEM. Otherwise it is copied into a frame of the
// fill ring. See ZeroCopyRx.
//
// Poll and Run belong to the goroutine that owns the port's queue pair. Stop,
// Start and a queue's reset may come from any other while Poll or Run are at
// work, though not during a Burst: frames that the device held come back on the
// completion ring, those that it was not given wait for the next Start. Where a
// reset fails, the device keeps them until one succeeds or the port is closed.
// The four rings are the application's other goroutines', one for each.
type XSK struct {
	// Tx takes frames to send, Rx gives those that were received. They are nil
	// when they were configured with size 0.
	Tx *ProducerRing[XSKDesc]
	Rx *ConsumerRing[XSKDesc]

	dev  *Device
	umem *UMEM
	cfg  XSKConfig
	wake chan struct{}

	mu      sync.Mutex // held by Poll, and by those who take the queues away
	closing bool       // no more descriptors are taken
	closed  bool
	tx      xskTx
	rx      xskRx

	txInvalid, rxInvalid, rxDropped atomic.Uint64
	refused                         atomic.Pointer[error]
}

// XSKStats counts what did not go its way: see struct xdp_statistics.
type XSKStats struct {
	TxInvalid uint64 // descriptors of the tx ring that were refused
	RxInvalid uint64 // entries of the fill ring that were refused
	RxDropped uint64 // packets for which there was no frame, or no rx ring long enough
}

// NewXSK binds a UMEM to a queue pair of the port, which was configured with a
// pool of the same Memory and may be running. Errors wrap port.ErrInvalid or
// port.ErrState and say what to do.
func (d *Device) NewXSK(u *UMEM, cfg XSKConfig) (*XSK, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := &XSK{dev: d, umem: u, cfg: cfg, wake: make(chan struct{}, 1)}
	if err := d.bind(x); err != nil {
		return nil, fmt.Errorf("%s: xsk on queue pair %d: %w", d.Name(), cfg.Queue, err)
	}
	return x, nil
}

func (d *Device) bind(x *XSK) error {
	cfg := x.cfg
	switch {
	case d.state == closed:
		return port.ErrClosed
	case d.mem == nil:
		return fmt.Errorf("%w: configure the port first", port.ErrState)
	case x.umem.mem != d.mem:
		return fmt.Errorf("%w: the UMEM is in other memory than the one the device was given: make it in the same", port.ErrInvalid)
	case cfg.Queue < 0 || cfg.Queue >= max(d.cfg.RxQueues, d.cfg.TxQueues):
		return fmt.Errorf("%w: the port is configured with %d queue pairs", port.ErrInvalid, max(d.cfg.RxQueues, d.cfg.TxQueues))
	case cfg.TxSize == 0 && cfg.RxSize == 0:
		return fmt.Errorf("%w: neither a tx nor an rx ring", port.ErrInvalid)
	case slices.ContainsFunc(d.xsks, func(o *XSK) bool { return o.cfg.Queue == cfg.Queue }):
		return fmt.Errorf("%w: another one is bound to it: close that first", port.ErrState)
	}
	if err := x.makeRings(); err != nil {
		return err
	}
	if err := x.umem.lock(x); err != nil {
		return err
	}
	d.xsks = append(d.xsks, x)
	if d.state == started {
		x.attach()
	}
	return nil
}

func (x *XSK) makeRings() (err error) {
	if x.cfg.TxSize != 0 {
		if x.Tx, x.tx.ring, err = newXSKRing[XSKDesc]("tx", x.cfg.TxSize); err != nil {
			return err
		}
		x.tx.sent = x.umem.sent.NewCache(burstSize)
		x.tx.pending = make([]*mbuf.Buf, 0, burstSize)
	}
	if x.cfg.RxSize != 0 {
		if x.rx.ring, x.Rx, err = newXSKRing[XSKDesc]("rx", x.cfg.RxSize); err != nil {
			return err
		}
		x.rx.cache = x.umem.pool.NewCache(0)
		x.rx.arrived = make([]*mbuf.Buf, 0, burstSize)
	}
	x.setAsleep(true)
	return nil
}

// attach gives x the queues of the port, which has started. The caller holds the
// port's lock.
func (x *XSK) attach() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cfg.Queue < len(x.dev.tx) {
		x.tx.queue, x.rx.queue = x.dev.tx[x.cfg.Queue], x.dev.rx[x.cfg.Queue]
	}
	x.rx.zeroCopy = x.dev.cfg.Pool == x.umem.pool
	x.Wakeup()
}

// hold keeps x from its queues until the caller, who holds the port's lock, has
// called release; then x takes back what they had of its frames.
func (x *XSK) hold() (release func()) {
	x.mu.Lock()
	return func() {
		if x.tx.queue != nil && len(x.dev.tx) == 0 {
			x.tx.queue, x.rx.queue = nil, nil
		}
		x.settle()
		x.mu.Unlock()
	}
}

// holdXSKs keeps all XSKs from the queues until release.
func (d *Device) holdXSKs() (release func()) {
	var releases []func()
	for _, x := range d.xsks {
		releases = append(releases, x.hold())
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// attachXSKs gives the XSKs the queues of the port, which has started.
func (d *Device) attachXSKs() {
	for _, x := range d.xsks {
		x.attach()
	}
}

// Poll moves frames: up to a burst from the tx ring to the device, those that
// were sent to the completion ring, those of the fill ring to the receive queue,
// and up to a burst of received packets to the rx ring. It returns the number of
// ring entries that it moved, and never waits. On a stopped port it only gives
// back what the device had.
func (x *XSK) Poll() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return 0
	}
	return x.poll()
}

func (x *XSK) poll() (moved int) {
	if x.Tx != nil {
		moved = x.send()
	}
	if x.Rx != nil {
		moved += x.receive()
	}
	return moved
}

// UMEM is the UMEM that x is bound to.
func (x *XSK) UMEM() *UMEM { return x.umem }

// ZeroCopyRx reports whether frames are received in place, on a started port.
func (x *XSK) ZeroCopyRx() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Rx != nil && x.rx.zeroCopy
}

// Outstanding is the number of frames that were taken from the tx ring and are
// not on the completion ring.
func (x *XSK) Outstanding() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tx.out
}

// Stats reads the counters; any goroutine may.
func (x *XSK) Stats() XSKStats {
	return XSKStats{TxInvalid: x.txInvalid.Load(), RxInvalid: x.rxInvalid.Load(), RxDropped: x.rxDropped.Load()}
}

// Err is nil, or says which descriptor was refused last, and why; any goroutine
// may call it. It is not the end of anything.
func (x *XSK) Err() error {
	if e := x.refused.Load(); e != nil {
		return *e
	}
	return nil
}

func (x *XSK) note(counter *atomic.Uint64, err error) {
	counter.Add(1)
	x.refused.Store(&err)
}

// Close takes x off the queue pair; ordinary traffic goes on. It waits until the
// frames that were taken from the tx ring are sent and back, and fails with
// port.ErrState and their number when ctx is done before; x goes on then. On a
// stopped port, unless its device could not be reset, they come back unsent. What is still on the tx ring stays there.
// The goroutine that owns the queue pair calls Close; while Run has the queue
// pair, any may. A second call does nothing.
func (x *XSK) Close(ctx context.Context) error {
	if err := x.drain(ctx); err != nil {
		return fmt.Errorf("%s: close the xsk on queue pair %d: %w", x.dev.Name(), x.cfg.Queue, err)
	}
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	x.dev.xsks = slices.DeleteFunc(x.dev.xsks, func(o *XSK) bool { return o == x })
	if x.Rx != nil {
		x.rx.give()
	}
	x.umem.unlock()
	x.Wakeup()
	return nil
}

// drain has no more descriptors taken, and waits for the frames that the device
// has. The port may be stopped meanwhile.
func (x *XSK) drain(ctx context.Context) error {
	for {
		out := x.wind(true)
		if out == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			x.wind(false)
			return fmt.Errorf("%w: %d frames are still with the device: %w: stop the port to have them back, or close it where that failed", port.ErrState, out, context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
	}
}

// wind winds x down, or up again, and returns how many frames are out.
func (x *XSK) wind(down bool) (out int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closing = down
	if x.Tx == nil {
		return 0
	}
	if down {
		x.tx.abandon()
	}
	x.send()
	return x.tx.out
}

// Wakeup wakes Run when it sleeps; any goroutine may call it.
func (x *XSK) Wakeup() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// setAsleep says whether the application has to wake whoever polls.
func (x *XSK) setAsleep(asleep bool) {
	if x.Tx != nil {
		x.Tx.ring.asleep.Store(asleep)
	}
	x.umem.Fill.ring.asleep.Store(asleep)
}

// errXSKClosed ends Run.
var errXSKClosed = errors.New("the XSK was closed")
