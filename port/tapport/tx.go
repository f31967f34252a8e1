package tapport

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// unsupported are the flags that ask a device for something.
const unsupported = mbuf.TxL4Mask | mbuf.TxVLAN

// txQueue writes frames to one queue of the interface, which the kernel then
// receives. Several transmit queues may write to the same one.
type txQueue struct {
	queue
	iov [][]byte // scratch: the segments of a chain

	packets, bytes, errors atomic.Uint64
}

func (q *txQueue) Burst(bufs []*mbuf.Buf) int {
	n, sent, size := 0, 0, 0
	for _, b := range bufs {
		err := q.send(b)
		if errors.Is(err, unix.EAGAIN) { // the kernel has no room
			break
		}
		n++
		if err == nil {
			sent++
			size += b.PacketLen()
		}
	}
	q.cache.Put(bufs[:n])
	if sent > 0 {
		q.packets.Add(uint64(sent))
		q.bytes.Add(uint64(size))
	}
	if sent < n {
		q.errors.Add(uint64(n - sent))
	}
	return n
}

// send writes one frame. Of its errors EAGAIN passes; others are about this
// frame alone, or have ended the queue.
func (q *txQueue) send(b *mbuf.Buf) error {
	if b.Flags&unsupported != 0 {
		return port.ErrNotSupported
	}
	if q.err.Load() != nil {
		return port.ErrGone
	}
	var err error = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = q.write(b)
	}
	if errors.Is(err, unix.EBADFD) {
		q.fail(err)
	}
	return err
}

func (q *txQueue) write(b *mbuf.Buf) error {
	if b.Next() == nil {
		_, err := unix.Write(q.tap.fd, b.Bytes())
		return err
	}
	q.iov = q.iov[:0]
	for seg := b; seg != nil; seg = seg.Next() {
		q.iov = append(q.iov, seg.Bytes())
	}
	_, err := unix.Writev(q.tap.fd, q.iov)
	return err
}

// Reclaim does nothing: what is written is freed at once.
func (q *txQueue) Reclaim() int { return 0 }

func (q *txQueue) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Errors: q.errors.Load()}
}

func (q *txQueue) reset() {
	q.packets.Store(0)
	q.bytes.Store(0)
	q.errors.Store(0)
}
