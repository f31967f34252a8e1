package packet

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// Message is a frame of ReadBatch and WriteBatch, in the pieces Buffers. It is the
// type that golang.org/x/net has for such calls. OOB and NN are not used.
type Message = ipv4.Message

// ReadFrom waits for a frame and copies it into p. The address is that of its
// sender, an *Addr. As with any net.PacketConn the rest of a frame that is longer
// than p is lost; a p of 18 bytes more than the MTU holds all.
func (c *Conn) ReadFrom(p []byte) (n int, addr net.Addr, err error) {
	ms := [1]Message{{Buffers: [][]byte{p}}}
	if _, err := c.ReadBatch(ms[:], 0); err != nil {
		return 0, nil, err
	}
	return ms[0].N, ms[0].Addr, nil
}

// ReadBatch waits for a frame, copies it and the ones that are there as well, as
// many as ms has room for, and returns their number. Of each message N, Addr and
// Flags are set: unix.MSG_TRUNC is among these when the frame was longer than the
// buffers.
//
// flags are 0 or unix.MSG_DONTWAIT, with which the error wraps unix.EAGAIN when
// there is no frame.
func (c *Conn) ReadBatch(ms []Message, flags int) (int, error) {
	n, err := c.read(ms, flags)
	if err != nil {
		return 0, c.failed("read", nil, err)
	}
	return n, nil
}

func (c *Conn) read(ms []Message, flags int) (int, error) {
	if err := checkFlags(flags); err != nil {
		return 0, err
	}
	ctx, err := c.in.enter()
	if err != nil {
		return 0, err
	}
	defer c.in.leave()
	c.disarm()
	for wait := (patience{}); ; {
		if n := c.deliver(ctx, ms); n > 0 || len(ms) == 0 {
			return n, nil
		}
		if flags == 0 {
			err = c.awaitFrames(ctx, &wait)
		} else {
			err = c.arm(ctx)
		}
		if err != nil {
			return 0, err
		}
	}
}

func checkFlags(flags int) error {
	if flags&^unix.MSG_DONTWAIT != 0 {
		return fmt.Errorf("flags %#x: %w: only MSG_DONTWAIT (%#x) is known", flags, port.ErrInvalid, unix.MSG_DONTWAIT)
	}
	return nil
}

// deliver copies frames that have arrived, and that the filter lets pass. One that
// drops all of a flood does not keep it beyond the end of ctx.
func (c *Conn) deliver(ctx context.Context, ms []Message) (n int) {
	for n < len(ms) && c.more() {
		b := c.waiting[0]
		c.waiting = c.waiting[1:]
		size := c.pass(b)
		if size > 0 {
			fill(&ms[n], b, size)
			n++
		}
		c.done[0] = b
		c.rxCache.Put(c.done[:])
		if size == 0 && ctx.Err() != nil {
			break
		}
	}
	return n
}

// more reports whether a frame has arrived.
func (c *Conn) more() bool {
	if len(c.waiting) == 0 {
		c.waiting = c.arrived[:c.rx.Burst(c.arrived[:])]
	}
	return len(c.waiting) > 0
}

// fill makes m of the first size bytes of a frame.
func fill(m *Message, b *mbuf.Buf, size int) {
	m.N, m.NN, m.Flags = 0, 0, 0
	src := b.Bytes()
	m.Addr = nil
	if len(src) >= headerLen {
		m.Addr = newAddr([6]byte(src[6:12]))
	}
	for _, dst := range m.Buffers {
		for len(dst) > 0 && m.N < size {
			if len(src) == 0 {
				b = b.Next()
				src = b.Bytes()
				continue
			}
			n := copy(dst, src[:min(len(src), size-m.N)])
			dst, src = dst[n:], src[n:]
			m.N += n
		}
	}
	if m.N < size {
		m.Flags = unix.MSG_TRUNC
	}
}

// patience is since when a read has polled.
type patience struct{ since time.Time }

// spins reports whether to poll for longer, of the time that there is for it.
func (p *patience) spins(limit time.Duration) bool {
	if limit == 0 {
		return false
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	return now.Sub(p.since) < limit
}

// awaitFrames returns when there may be a frame, or with the reason why none can
// be waited for.
func (c *Conn) awaitFrames(ctx context.Context, wait *patience) error {
	if err := c.over(ctx); err != nil {
		return err
	}
	if c.cfg.Poll || wait.spins(c.cfg.Spin) {
		runtime.Gosched()
		return nil
	}
	if err := c.rx.Wait(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// over is why no frame is to be waited for.
func (c *Conn) over(ctx context.Context) error {
	if err := broken(c.rx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// broken is the error of a queue that has stopped for good, and what to do.
func broken(queue interface{ Err() error }) error {
	if err := queue.Err(); err != nil {
		return fmt.Errorf("%w: close the Conn and listen anew", err)
	}
	return nil
}
