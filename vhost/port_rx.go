package vhost

import (
	"context"
	"fmt"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
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
	fresh    []*mbuf.Buf     // scratch: a burst's buffers
	more     []*mbuf.Buf     // scratch: further buffers of a frame
	held     []*mbuf.Buf     // those of fresh that are the queue's: packets of a burst, and empty ones
	stopped  <-chan struct{} // nil: no Wait was asked for

	packets, bytes, errors, noBuf port.Counter
}

func (q *portRx) start(c *port.Config, stopped <-chan struct{}) error {
	q.own = c.Pool.NewCache(0)
	q.cache, q.offloads = q.own, c.RxOffloads
	q.room = c.Pool.BufSize() - mbuf.Headroom
	q.fresh, q.more = make([]*mbuf.Buf, queueBurst), make([]*mbuf.Buf, maxFrame/q.room)
	q.stopped = nil
	if c.RxInterrupts {
		q.stopped = stopped
		return q.dev.hangBell()
	}
	return nil
}

// release gives the buffers back. A cache of UseCache may be somebody else's by
// now.
func (q *portRx) release() {
	q.dev.takeBell()
	q.cache = q.own
	q.putBack()
	q.cache.Flush()
	q.dev.settleIdle()
}

// Burst receives packets. A guest whose frames are polled for needs not kick.
func (q *portRx) Burst(bufs []*mbuf.Buf) (n int) {
	d := q.dev
	defer d.leave(d.enter())
	if d.ring == nil {
		return 0
	}
	if q.backend.announces() {
		return q.receiveAnnouncement(bufs)
	}
	d.settle()
	if d.draining {
		return 0
	}
	size, taken := 0, 0
	for n < len(bufs) {
		// A take that brings less than was asked for ends the burst, unless more
		// may have come while its frames were copied: each look takes a cache line
		// from a guest that writes to it.
		asked := min(len(bufs)-n, queueBurst)
		chains := d.takeChains(asked)
		done, accepted, bytes := q.receive(bufs[n:], chains)
		n, size, taken = n+accepted, size+bytes, taken+done
		if done == 0 || done < len(chains) || done < asked && !d.trickles {
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

// receive makes packets of chains, until buffers are short. It returns how many
// chains it is done with, and how many packets came of them with how many bytes.
// The other chains go back.
func (q *portRx) receive(bufs []*mbuf.Buf, chains []ring.Chain) (done, n, size int) {
	d := q.dev
	if d.lending == nil && q.offloads&port.RxVLANStrip == 0 && d.openPlain(chains, portOverhead, q.room) {
		n, size = q.receivePlain(bufs, chains)
		return n, n, size
	}
	frames := d.open(chains)
	done, n, size = q.receiveFrames(bufs, frames)
	q.putShort(len(frames) - done)
	return done, n, size
}

// putShort puts the last n chains back, for which there were no buffers.
func (q *portRx) putShort(n int) {
	if n > 0 {
		q.dev.ring.Return(n)
		q.noBuf.Add(1)
	}
}

// receivePlain makes packets of chains whose data openPlain has found, and completes
// these.
func (q *portRx) receivePlain(bufs []*mbuf.Buf, chains []ring.Chain) (n, size int) {
	d, id := q.dev, q.id
	q.putBack()
	src := d.src[:len(chains)]
	q.held = q.fresh[:q.cache.Get(q.fresh[:len(chains)])]
	for i, b := range q.held {
		size += copy(b.Renew(len(src[i])), src[i])
		b.Port = id
	}
	n = copy(bufs, q.held)
	d.complete(chains[:n])
	q.held = nil
	q.putShort(len(chains) - n)
	return n, size
}

// receiveFrames makes packets of frames, until buffers are short, and completes
// these. It returns how many frames it is done with, and how many packets came of
// them with how many bytes.
func (q *portRx) receiveFrames(bufs []*mbuf.Buf, frames []takenFrame) (done, n, size int) {
	d := q.dev
	q.putBack()
	d.places, q.held = d.places[:0], q.fresh[:0]
	if d.lending == nil {
		q.held = q.fresh[:q.cache.Get(q.fresh[:len(frames)])]
	}
	for done < len(frames) {
		f := &frames[done]
		if d.lending != nil && q.hold(f) {
			done++
			continue
		}
		if done == len(q.held) {
			break
		}
		if b := q.held[done]; f.last-f.first == 1 && f.size <= q.room {
			copy(b.Renew(f.size), d.src[f.first]) // the usual case
		} else if !q.copyFrame(b, f) {
			break
		}
		d.noteCopied(f)
		done++
	}
	d.copyNow()
	d.release(frames[:done])
	packets := q.held[:done]
	q.held = q.held[done:]
	q.putBack()
	plain := !d.requests && q.offloads&port.RxVLANStrip == 0 // nothing to look at
	for i, b := range packets {
		b.Port = q.id
		if !(plain && frames[i].size >= portOverhead) && !q.accept(b, frames[i].header) {
			q.drop(b)
			continue
		}
		bufs[n] = b
		size += b.PacketLen()
		n++
	}
	return done, n, size
}

// hold adds to q.held a packet that is lent of a frame, and then is true, or a
// buffer to copy it to, if there is one. Until the burst is complete all of them
// are no caller's: see putBack.
func (q *portRx) hold(f *takenFrame) (lent bool) {
	n := len(q.held)
	b := q.lend(f)
	if b == nil {
		q.held = q.fresh[:n+q.cache.Get(q.fresh[n:n+1])]
		return false
	}
	q.held = append(q.held, b)
	return true
}

// putBack frees the buffers that no packet was made of, and after a fault in the
// guest's memory the packets of the burst that it ended.
func (q *portRx) putBack() {
	if len(q.held) > 0 {
		q.cache.Put(q.held)
		q.held = nil
	}
}

// lend makes a packet of f without copying it; nil when it has to be copied.
func (q *portRx) lend(f *takenFrame) *mbuf.Buf {
	if q.offloads&port.RxVLANStrip != 0 { // that writes
		return nil
	}
	return q.dev.lend(f)
}

// copyFrame has a frame copied, with the burst, into b and as many buffers more
// as it takes. It is false when they are short.
func (q *portRx) copyFrame(b *mbuf.Buf, f *takenFrame) bool {
	more := q.more[:(f.size-1)/q.room]
	if got := q.cache.Get(more); got < len(more) {
		q.cache.Put(more[:got])
		return false
	}
	rest := f.size
	b.Renew(min(rest, q.room))
	last := b
	for _, seg := range more {
		rest -= q.room
		seg.Renew(min(rest, q.room))
		b.Link(last, seg)
		last = seg
	}
	src := q.dev.data(f)
	for seg := b; seg != nil; seg = seg.Next() {
		src = q.dev.note(seg.Bytes(), src)
	}
	return true
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
	for {
		if q.askForKick() {
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

// askForKick has the guest kick for what comes next. It reports whether there is
// something to receive already.
func (q *portRx) askForKick() bool {
	q.dev.settleIdle()
	return q.dev.askForKick() || q.backend.announces()
}

// Alarm is for loops that sleep on several queues; see port.Alarmer.
func (q *portRx) Alarm() (port.Alarm, error) {
	if q.stopped == nil {
		return nil, fmt.Errorf("alarm of a receive queue: %w: configure the port with RxInterrupts", port.ErrNotSupported)
	}
	return kickAlarm{q.dev, q.askForKick}, nil
}

// Err is nil, or the rule that the guest broke; it is nil again when the guest
// has started the queue anew.
func (q *portRx) Err() error { return q.dev.Err() }

func (q *portRx) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Errors: q.errors.Load(), NoBuf: q.noBuf.Load()}
}

func (q *portRx) reset() {
	for _, c := range []*port.Counter{&q.packets, &q.bytes, &q.errors, &q.noBuf} {
		c.Reset()
	}
}
