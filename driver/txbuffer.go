package driver

import (
	"fmt"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
)

// MaxTxBuffer is the largest TxBufferConfig.Size: the longest virtqueue has that
// many descriptors.
const MaxTxBuffer = ring.MaxSize

// TxBufferConfig says how long packets wait in a TxBuffer, and for how many
// others.
type TxBufferConfig struct {
	// Size is the number of packets that are sent together. It is at least 1,
	// and no more than the queue has descriptors.
	Size int
	// Desc is the queue's number of descriptors, as port.Info.TxDesc tells of a
	// started port; 0: not known.
	Desc int
	// Drain is how long packets wait at most, as far as Poll is called that
	// often; 0: until the next call, which is best for a loop that calls Poll
	// once a turn. Under load the turns fill the buffer all the same, and at
	// rest a longer time is only a delay.
	Drain time.Duration
	// Retries is how often packets that the queue did not take are offered
	// again, at once, before they are given up.
	Retries int
	// Unsent gets the packets that were given up, to free them or to keep them;
	// nil: the buffer frees them. It is called from within the buffer's methods
	// and must not call them. The slice is valid until it returns.
	Unsent func(pkts []*mbuf.Buf)
}

func (c *TxBufferConfig) check() error {
	most := MaxTxBuffer
	if c.Desc > 0 {
		most = c.Desc
	}
	switch {
	case c.Size < 1 || c.Size > most:
		return fmt.Errorf("transmit buffer: %w: size %d: must be 1 to %d packets, as many as the queue has descriptors", port.ErrInvalid, c.Size, most)
	case c.Drain < 0:
		return fmt.Errorf("transmit buffer: %w: drain time %v: must not be negative", port.ErrInvalid, c.Drain)
	case c.Retries < 0:
		return fmt.Errorf("transmit buffer: %w: %d retries: must not be negative", port.ErrInvalid, c.Retries)
	}
	return nil
}

// TxBuffer is an intermediate queue in front of a transmit queue: small batches
// wait in it until they make a burst that is worth its cost, or until they have
// waited long enough. It is a port.TxQueue, in the place of the one behind it.
//
// One goroutine at a time calls its methods, the one that drives the queue;
// Stats and ResetStats may be called by any. There is no timer: the loop that
// calls Burst calls Poll as well. A SharedTxBuffer serves programs without such
// a loop.
//
// A packet that Burst took belongs to the buffer until the queue takes it.
// Close the buffer before its port stops, so that what waits is sent; after the
// stop Close can only free it.
type TxBuffer struct {
	queue   port.TxQueue
	waiting []*mbuf.Buf // packets in order; its capacity is the size
	retries int
	unsent  func([]*mbuf.Buf)
	cache   *mbuf.Cache // where unsent packets go; nil: to their pools
	closed  bool

	drain time.Duration
	since time.Duration // when Poll first saw what waits
	timed bool          // since is valid

	full, late, asked      port.Counter
	packets, lost, retried port.Counter
}

var _ port.TxQueue = (*TxBuffer)(nil)

// NewTxBuffer puts a buffer in front of q. From then on q is the buffer's alone.
// An error wraps port.ErrInvalid and says which value is out of its range.
func NewTxBuffer(q port.TxQueue, cfg TxBufferConfig) (*TxBuffer, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t := &TxBuffer{
		queue: q, waiting: make([]*mbuf.Buf, 0, cfg.Size), drain: cfg.Drain,
		retries: cfg.Retries, unsent: cfg.Unsent,
	}
	if t.unsent == nil {
		t.unsent = t.free
	}
	return t, nil
}

// Burst takes all of pkts, in their order, and sends what makes a full burst. A
// burst that is one already goes past the buffer when nothing waits in it.
// After Close it takes nothing.
func (t *TxBuffer) Burst(pkts []*mbuf.Buf) int {
	if t.closed {
		return 0
	}
	size := cap(t.waiting)
	for rest := pkts; len(rest) > 0; {
		if len(t.waiting) == 0 && len(rest) >= size {
			t.full.Add(1)
			t.send(rest)
			break
		}
		n := min(size-len(t.waiting), len(rest))
		t.waiting = append(t.waiting, rest[:n]...)
		rest = rest[n:]
		if len(t.waiting) == size {
			t.flush(&t.full)
		}
	}
	return len(pkts)
}

// Poll sends what has waited for the configured time. now is the time since
// any moment that stays the same, such as time.Since(start), which costs half of
// what time.Now does; one reading serves all the buffers of a round, and none is
// needed while Waiting is 0. The time of waiting packets begins with the first
// Poll that sees them, so that Burst needs no clock. Poll returns the number of
// packets that the queue took.
func (t *TxBuffer) Poll(now time.Duration) int {
	if len(t.waiting) == 0 {
		return 0
	}
	if !t.timed {
		t.since, t.timed = now, true
	}
	if now-t.since < t.drain {
		return 0
	}
	return t.flush(&t.late)
}

// Flush sends what waits and returns the number of packets that the queue took.
func (t *TxBuffer) Flush() int {
	if len(t.waiting) == 0 {
		return 0
	}
	return t.flush(&t.asked)
}

// Close sends what waits. What the queue does not take goes where other packets
// that were given up go; the queue of a stopped Device takes nothing. The buffer
// is of no use afterwards. A second call does nothing. It returns nil.
func (t *TxBuffer) Close() error {
	t.Flush()
	t.closed = true
	return nil
}

// Waiting is the number of packets that wait.
func (t *TxBuffer) Waiting() int { return len(t.waiting) }

// Reclaim frees the packets that the queue behind the buffer has sent. What
// waits in the buffer goes on waiting. After Close it does nothing.
func (t *TxBuffer) Reclaim() int {
	if t.closed {
		return 0
	}
	return t.queue.Reclaim()
}

// UseCache makes buffer and queue free packets into c.
func (t *TxBuffer) UseCache(c *mbuf.Cache) {
	t.cache = c
	t.queue.UseCache(c)
}

// Err is nil, or why the queue has stopped for good. After Close it wraps
// port.ErrClosed.
func (t *TxBuffer) Err() error {
	if t.closed {
		return fmt.Errorf("transmit buffer: %w", port.ErrClosed)
	}
	return t.queue.Err()
}

// flush sends what waits, for the reason that counts in why, and returns how
// many packets the queue took.
func (t *TxBuffer) flush(why *port.Counter) int {
	why.Add(1)
	pkts := t.waiting
	t.waiting, t.timed = t.waiting[:0], false
	return t.send(pkts)
}

// send hands pkts to the queue, and gives up those that it does not take.
func (t *TxBuffer) send(pkts []*mbuf.Buf) int {
	n := t.queue.Burst(pkts)
	for try := 0; n < len(pkts) && try < t.retries; try++ {
		t.retried.Add(1)
		n += t.queue.Burst(pkts[n:])
	}
	if n > 0 {
		t.packets.Add(uint64(n))
	}
	if n < len(pkts) {
		t.lost.Add(uint64(len(pkts) - n))
		t.unsent(pkts[n:])
	}
	return n
}

// free is what becomes of packets that nobody else wants.
func (t *TxBuffer) free(pkts []*mbuf.Buf) {
	if t.cache != nil {
		t.cache.Put(pkts)
		return
	}
	for _, b := range pkts {
		b.Free()
	}
}
