package pcapport

import (
	"context"
	"io"
	"sync/atomic"

	"vionet/mbuf"
	"vionet/port"
)

// source is where the frames of a receive queue come from. At the end the error
// is io.EOF.
type source interface{ next() ([]byte, error) }

// rxQueue receives what a file holds.
type rxQueue struct {
	name  string // of the file; "": none
	own   *mbuf.Cache
	cache *mbuf.Cache
	room  int         // bytes of a frame that a buffer holds
	segs  []*mbuf.Buf // scratch: a frame's buffers

	file    *capture // nil: closed
	source  source   // nil: there are no more frames
	waiting []byte   // a frame that was read and for which buffers were short
	err     atomic.Pointer[error]

	packets, bytes, noBuf atomic.Uint64
}

func (q *rxQueue) start(pool *mbuf.Pool, again bool) error {
	q.own = pool.NewCache(0)
	q.cache, q.room = q.own, roomOf(pool)
	q.segs = make([]*mbuf.Buf, maxFrame/q.room+1)
	q.waiting = nil
	q.err.Store(nil)
	if q.name == "" {
		return nil
	}
	var err error
	if q.file, err = openCapture(q.name); err != nil {
		return err
	}
	q.source = q.file
	if again {
		l, err := readLoop(q.file)
		if err != nil {
			return err
		}
		q.source = l
	}
	return nil
}

func (q *rxQueue) stop() {
	if q.cache != nil {
		q.cache.Flush()
	}
	if q.file != nil {
		q.file.close()
	}
	q.file, q.source, q.waiting = nil, nil, nil
}

func (q *rxQueue) Burst(bufs []*mbuf.Buf) int {
	n, size := 0, 0
	for n < len(bufs) && q.source != nil {
		frame := q.frame()
		if frame == nil {
			break
		}
		if bufs[n] = q.packet(frame); bufs[n] == nil {
			q.waiting = frame
			q.noBuf.Add(1)
			break
		}
		size += len(frame)
		n++
	}
	if n > 0 {
		q.packets.Add(uint64(n))
		q.bytes.Add(uint64(size))
	}
	return n
}

// frame gives the next frame, or nil behind the last one.
func (q *rxQueue) frame() []byte {
	if frame := q.waiting; frame != nil {
		q.waiting = nil
		return frame
	}
	frame, err := q.source.next()
	if err != nil {
		q.end(err)
		return nil
	}
	return frame
}

// end ends the reception for good.
func (q *rxQueue) end(err error) {
	q.source = nil
	if err != io.EOF {
		q.err.Store(&err)
	}
}

// packet makes a packet of the frame, or returns nil when buffers are short.
func (q *rxQueue) packet(frame []byte) *mbuf.Buf {
	segs := q.segs[:(len(frame)+q.room-1)/q.room]
	if got := q.cache.Get(segs); got < len(segs) {
		q.cache.Put(segs[:got])
		return nil
	}
	head := segs[0]
	for i, seg := range segs {
		frame = frame[copy(seg.Renew(min(len(frame), q.room)), frame):]
		if i > 0 {
			head.Link(segs[i-1], seg)
		}
	}
	return head
}

func (q *rxQueue) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

// Wait returns at once while there are frames. Behind the last one nothing comes
// any more.
func (q *rxQueue) Wait(ctx context.Context) error {
	if q.source == nil {
		<-ctx.Done()
	}
	return ctx.Err()
}

// Err is nil, or why the file could not be read to its end.
func (q *rxQueue) Err() error {
	if err := q.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (q *rxQueue) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), NoBuf: q.noBuf.Load()}
}

func (q *rxQueue) reset() {
	q.packets.Store(0)
	q.bytes.Store(0)
	q.noBuf.Store(0)
}
