package vhost

import (
	"context"
	"fmt"
	"sync/atomic"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// portRx receives what the guest sends on one of its transmit queues.
type portRx struct {
	dev *Queue
	id  uint16 // the port's

	own      *mbuf.Cache // flushed when another takes its place
	cache    *mbuf.Cache // the one in use
	room     int         // bytes of a frame that a buffer holds
	offloads port.RxOffloads
	fresh    []*mbuf.Buf     // scratch: a burst's buffers
	more     []*mbuf.Buf     // scratch: further buffers of a frame
	stopped  <-chan struct{} // nil: no Wait was asked for

	packets, bytes, errors, noBuf atomic.Uint64
}

func (q *portRx) start(c *port.Config, stopped <-chan struct{}) {
	q.own = c.Pool.NewCache(0)
	q.cache, q.offloads = q.own, c.RxOffloads
	q.room = c.Pool.BufSize() - mbuf.Headroom
	q.fresh, q.more = make([]*mbuf.Buf, queueBurst), make([]*mbuf.Buf, maxFrame/q.room)
	q.stopped = nil
	if c.RxInterrupts {
		q.stopped = stopped
	}
}

// release gives the buffers back. A cache of UseCache may be somebody else's by
// now.
func (q *portRx) release() {
	q.cache = q.own
	q.cache.Flush()
	q.dev.settleIdle()
}

// Burst receives packets. A guest whose frames are polled for needs not kick.
func (q *portRx) Burst(bufs []*mbuf.Buf) int {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ring == nil {
		return 0
	}
	d.settle()
	if d.draining {
		return 0
	}
	n, size, taken := 0, 0, 0
	for n < len(bufs) {
		// A take that brings less than was asked for ends the burst: to look
		// again at once would take a cache line from a guest that writes to it.
		asked := min(len(bufs)-n, queueBurst)
		frames := d.take(asked)
		done, accepted, bytes := q.receive(bufs[n:], frames)
		n, size, taken = n+accepted, size+bytes, taken+len(frames)
		d.release(frames[:done])
		if done < len(frames) {
			d.ring.Return(len(frames) - done)
			q.noBuf.Add(1)
			break
		}
		if len(frames) < asked {
			break
		}
	}
	if taken > 0 {
		d.ring.Notify(false)
	}
	d.flush() // which reports a ring that has just broken, too
	if n > 0 {
		q.packets.Add(uint64(n))
		q.bytes.Add(uint64(size))
	}
	return n
}

// receive makes packets of frames, until buffers are short. It returns how many
// frames it is done with, and how many packets came of them with how many bytes.
func (q *portRx) receive(bufs []*mbuf.Buf, frames []takenFrame) (done, n, size int) {
	fresh := q.fresh[:q.cache.Get(q.fresh[:len(frames)])]
	for done < len(frames) {
		f := &frames[done]
		b := q.lend(f)
		if b == nil {
			if len(fresh) == 0 || !q.copyFrame(fresh[0], f) {
				break
			}
			b, fresh = fresh[0], fresh[1:]
			q.dev.noteCopied(f)
		}
		done++
		b.Port = q.id
		if !q.accept(b, f.header) {
			q.drop(b)
			continue
		}
		bufs[n] = b
		size += b.PacketLen()
		n++
	}
	q.cache.Put(fresh)
	return done, n, size
}

// lend makes a packet of f without copying it; nil when it has to be copied.
func (q *portRx) lend(f *takenFrame) *mbuf.Buf {
	if q.dev.lending == nil || q.offloads&port.RxVLANStrip != 0 { // that writes
		return nil
	}
	return q.dev.lend(f)
}

// copyFrame copies a frame into b and as many buffers more as it takes. It is
// false when they are short.
func (q *portRx) copyFrame(b *mbuf.Buf, f *takenFrame) bool {
	src := q.dev.data(f)
	if f.size <= q.room {
		gather(b.Renew(f.size), src)
		return true
	}
	more := q.more[:(f.size-1)/q.room]
	if got := q.cache.Get(more); got < len(more) {
		q.cache.Put(more[:got])
		return false
	}
	rest, last := f.size, b
	src = fillFrom(b.Renew(q.room), src)
	for _, seg := range more {
		rest -= q.room
		src = fillFrom(seg.Renew(min(rest, q.room)), src)
		b.Link(last, seg)
		last = seg
	}
	return true
}

// fillFrom fills dst from the front of src, and gives what is left of it.
func fillFrom(dst []byte, src [][]byte) [][]byte {
	for len(dst) > 0 {
		n := copy(dst, src[0])
		dst = dst[n:]
		if src[0] = src[0][n:]; len(src[0]) == 0 {
			src = src[1:]
		}
	}
	return src
}

// accept does what header and the offloads say about b. It is false for a
// packet that makes no sense.
func (q *portRx) accept(b *mbuf.Buf, h virtio.NetHeader) bool {
	if b.PacketLen() < portOverhead || !q.readHeader(b, h) {
		return false
	}
	if q.offloads&port.RxVLANStrip != 0 {
		stripVLAN(b)
	}
	return true
}

func (q *portRx) drop(b *mbuf.Buf) {
	q.more[0] = b
	q.cache.Put(q.more[:1])
	q.errors.Add(1)
}

// UseCache makes the queue take its buffers through c.
func (q *portRx) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

// Wait sleeps until the guest kicks, or its rings come to life.
func (q *portRx) Wait(ctx context.Context) error {
	if q.stopped == nil {
		return fmt.Errorf("wait for packets: %w: configure the port with RxInterrupts", port.ErrNotSupported)
	}
	q.dev.settleIdle()
	for {
		// Off and on: the guest is asked to kick for what comes next.
		q.dev.SetNotify(false)
		q.dev.SetNotify(true)
		if q.dev.Pending() > 0 {
			return nil
		}
		select {
		case <-q.dev.kicked:
		case <-q.stopped:
			return fmt.Errorf("wait for packets: the port was stopped: %w", port.ErrClosed)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Err is nil, or the rule that the guest broke; it is nil again when the guest
// has started the queue anew.
func (q *portRx) Err() error { return q.dev.Err() }

func (q *portRx) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Errors: q.errors.Load(), NoBuf: q.noBuf.Load()}
}

func (q *portRx) reset() {
	for _, c := range []*atomic.Uint64{&q.packets, &q.bytes, &q.errors, &q.noBuf} {
		c.Store(0)
	}
}
