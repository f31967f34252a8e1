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
	dev     *Queue
	backend *Backend // for what it has the port receive
	id      uint16   // the port's

	own      *mbuf.Cache // flushed when another takes its place
	cache    *mbuf.Cache // the one in use
	room     int         // bytes of a frame that a buffer holds
	offloads port.RxOffloads
	segs     []*mbuf.Buf     // scratch: a frame's buffers
	stopped  <-chan struct{} // nil: no Wait was asked for

	packets, bytes, errors, noBuf atomic.Uint64
}

func (q *portRx) start(c *port.Config, stopped <-chan struct{}) {
	q.own = c.Pool.NewCache(0)
	q.cache, q.offloads = q.own, c.RxOffloads
	q.room = c.Pool.BufSize() - mbuf.Headroom
	q.segs = make([]*mbuf.Buf, maxFrame/q.room+1)
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
}

// Burst receives packets. A guest whose frames are polled for needs not kick.
func (q *portRx) Burst(bufs []*mbuf.Buf) int {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ring == nil {
		return 0
	}
	if q.backend.announces() {
		return q.receiveAnnouncement(bufs)
	}
	if d.ring.Pending() == 0 {
		d.report() // a ring that has just broken has nothing either
		return 0
	}
	d.ring.Notify(false)
	n, size := 0, 0
	for n < len(bufs) {
		head, header, length, ok := d.take()
		if !ok {
			break
		}
		b := q.packet(length)
		if b == nil {
			d.ring.Return(1)
			q.noBuf.Add(1)
			break
		}
		d.ring.Complete(head, 0)
		if !q.accept(b, header) {
			q.drop(b)
			continue
		}
		bufs[n] = b
		size += b.PacketLen()
		n++
	}
	d.flush()
	if n > 0 {
		q.packets.Add(uint64(n))
		q.bytes.Add(uint64(size))
	}
	return n
}

// packet copies the frame of size bytes that the queue has taken into a packet,
// or returns nil when buffers are short.
func (q *portRx) packet(size int) *mbuf.Buf {
	segs := q.segs[:(size+q.room-1)/q.room]
	if got := q.cache.Get(segs); got < len(segs) {
		q.cache.Put(segs[:got])
		return nil
	}
	src, head := q.dev.src, segs[0]
	for i, seg := range segs {
		dst := seg.Renew(min(size, q.room))
		size -= len(dst)
		for len(dst) > 0 {
			n := copy(dst, src[0])
			dst = dst[n:]
			if src[0] = src[0][n:]; len(src[0]) == 0 {
				src = src[1:]
			}
		}
		if i > 0 {
			head.Link(segs[i-1], seg)
		}
	}
	head.Port = q.id
	return head
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
	q.segs[0] = b
	q.cache.Put(q.segs[:1])
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
	for {
		// Off and on: the guest is asked to kick for what comes next.
		q.dev.SetNotify(false)
		q.dev.SetNotify(true)
		if q.dev.Pending() > 0 || q.backend.announces() {
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
