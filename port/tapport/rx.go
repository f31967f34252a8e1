package tapport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// rxQueue receives the frames that the kernel sends out of one queue of the
// interface.
type rxQueue struct {
	queue
	room   int          // bytes of a frame that a buffer holds
	spare  *mbuf.Buf    // a buffer for which there was no frame
	one    [1]*mbuf.Buf // scratch
	iov    [2][]byte    // scratch: the buffer, and spill
	spill  []byte       // takes what of a frame does not fit into a buffer
	segs   []*mbuf.Buf  // scratch: the buffers behind the first
	sleeps bool

	packets, bytes, noBuf, missed atomic.Uint64
}

func (q *rxQueue) start(t *tap, c port.Config) {
	q.queue.start(t, c.Pool)
	q.room = c.Pool.BufSize() - mbuf.Headroom
	q.segs = make([]*mbuf.Buf, maxFrame/q.room+1)
	q.spill = make([]byte, maxFrame)
	q.sleeps = c.RxInterrupts
}

// stop throws away what the kernel has sent, and frees the buffers.
func (q *rxQueue) stop() {
	for range maxBacklog {
		if _, err := unix.Read(q.tap.fd, q.spill); err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if q.spare != nil {
		q.spare.Free()
		q.spare = nil
	}
	q.queue.stop()
}

func (q *rxQueue) Burst(bufs []*mbuf.Buf) int {
	n, size := 0, 0
	for n < len(bufs) {
		b := q.receive()
		if b == nil {
			break
		}
		bufs[n] = b
		size += b.PacketLen()
		n++
	}
	if n > 0 {
		q.packets.Add(uint64(n))
		q.bytes.Add(uint64(size))
	}
	return n
}

// receive reads a frame, or returns nil when there is none or no buffer for it.
func (q *rxQueue) receive() *mbuf.Buf {
	for q.err.Load() == nil {
		b := q.buffer()
		if b == nil {
			q.noBuf.Add(1)
			return nil
		}
		q.iov = [2][]byte{b.Renew(q.room), q.spill}
		n, err := unix.Readv(q.tap.fd, q.iov[:])
		if err == nil && n <= q.room {
			b.Truncate(n)
			return b
		}
		if err == nil && q.extend(b, q.spill[:n-q.room]) {
			return b
		}
		q.spare = b
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil, errors.Is(err, unix.EAGAIN): // it was lost, or there is none
			return nil
		default:
			q.fail(err)
			return nil
		}
	}
	return nil
}

func (q *rxQueue) buffer() *mbuf.Buf {
	if b := q.spare; b != nil {
		q.spare = nil
		return b
	}
	if q.cache.Get(q.one[:]) == 0 {
		return nil
	}
	return q.one[0]
}

// extend hangs the rest of a frame behind its first buffer, and reports whether
// there were buffers for it. If not, the frame is lost.
func (q *rxQueue) extend(head *mbuf.Buf, rest []byte) bool {
	segs := q.segs[:(len(rest)+q.room-1)/q.room]
	if got := q.cache.Get(segs); got < len(segs) {
		q.cache.Put(segs[:got])
		q.noBuf.Add(uint64(len(segs) - got))
		q.missed.Add(1)
		return false
	}
	last := head
	for _, seg := range segs {
		rest = rest[copy(seg.Renew(min(len(rest), q.room)), rest):]
		head.Link(last, seg)
		last = seg
	}
	return true
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// Wait sleeps in the runtime's poller.
func (q *rxQueue) Wait(ctx context.Context) error {
	if !q.sleeps {
		return fmt.Errorf("wait for packets: %w: the port is configured without receive interrupts", port.ErrNotSupported)
	}
	for {
		err := q.sleep(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrClosed):
			return port.ErrClosed
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline of an earlier, cancelled Wait came late.
		case q.tap.ready(): // with an error, which Burst finds too
			return nil
		default:
			return fmt.Errorf("wait for packets: %w", err)
		}
	}
}

func (q *rxQueue) sleep(ctx context.Context) error {
	if err := q.tap.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { q.tap.file.SetReadDeadline(longAgo) })
	defer stop()
	conn, err := q.tap.file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(uintptr) bool { return q.tap.ready() })
}

// Alarm is for loops that sleep on several queues; see port.Alarmer.
func (q *rxQueue) Alarm() (port.Alarm, error) {
	if !q.sleeps {
		return nil, fmt.Errorf("alarm of a receive queue: %w: the port is configured without receive interrupts", port.ErrNotSupported)
	}
	return q, nil
}

// FD is the tap's: the kernel needs no asking to signal it.
func (q *rxQueue) FD() int { return q.tap.fd }

// Arm looks whether a frame waits.
func (q *rxQueue) Arm() time.Duration {
	if q.err.Load() == nil && q.tap.ready() {
		return 0
	}
	return port.Forever
}

// Disarm has nothing to take back.
func (q *rxQueue) Disarm() {}

func (q *rxQueue) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Missed: q.missed.Load(), NoBuf: q.noBuf.Load()}
}

func (q *rxQueue) reset() {
	q.packets.Store(0)
	q.bytes.Store(0)
	q.noBuf.Store(0)
	q.missed.Store(0)
}
