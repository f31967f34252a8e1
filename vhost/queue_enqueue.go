package vhost

import (
	"vionet/ring"
	"vionet/virtio"
)

// stock is chains of a receive queue that were taken for a burst and are used
// up one after the other. What is left goes back at the burst's end.
type stock struct {
	chains []ring.Chain
	pieces []ring.Piece // those of chains, and more
	want   int          // chains to take next time
}

// copyJob is bytes that are to be copied at the end of a burst.
type copyJob struct{ dst, src []byte }

// Enqueue copies frames to the driver, over a receive queue, and returns how
// many were taken: fewer when the driver has no buffers left. A frame that
// could never fit is taken and dropped.
func (q *Queue) Enqueue(frames []Frame) int {
	defer q.leave(q.enter())
	if q.ring == nil {
		return 0
	}
	q.beginDelivery(len(frames))
	n := 0
	for n < len(frames) {
		f := &frames[n]
		q.src = append(q.src[:0], f.Data)
		if !q.deliver(f.Header, q.src, len(f.Data)) {
			break
		}
		n++
	}
	q.endDelivery()
	return n
}

// beginDelivery begins a burst of about n frames to the driver.
func (q *Queue) beginDelivery(n int) {
	q.copies, q.done, q.stock = q.copies[:0], q.done[:0], stock{want: min(n, queueBurst)}
}

// endDelivery ends a burst: it copies all data, and shows it to the driver.
func (q *Queue) endDelivery() {
	q.copyNow()
	q.ring.Complete(q.done)
	q.ring.Return(len(q.stock.chains))
	q.flush()
}

// copyNow does the copies that deliver has left for later.
func (q *Queue) copyNow() {
	for i := range q.copies {
		copy(q.copies[i].dst, q.copies[i].src)
	}
	q.copies = q.copies[:0]
}

// deliver writes one frame of size bytes, which are in src, to the driver. This
// one function serves drivers with mergeable receive buffers, whose frames may
// lie in several, and drivers without. The data is copied with that of the
// whole burst: what src refers to stays as it is until copyNow or endDelivery;
// the list itself is used up. It is false, with nothing written, when the driver
// has too few buffers. A frame that fits in no number of them is dropped.
func (q *Queue) deliver(h virtio.NetHeader, src [][]byte, size int) bool {
	f := delivery{src: src, rest: q.headerSize + size, copies: len(q.copies), buffers: len(q.done)}
	for f.rest > 0 {
		n := len(q.done) - f.buffers
		if n == q.ring.Size() || n == 1 && !q.features.Has(virtio.NetMrgRxbuf) {
			q.undo(&f)
			q.stats.Dropped++
			return true
		}
		if !q.fillBuffer(&f) {
			q.undo(&f)
			return false
		}
	}
	h.NumBuffers = uint16(len(q.done) - f.buffers)
	h.Encode(f.header)
	if f.ownHeader {
		q.copyNow()
	}
	q.count(size)
	return true
}

// delivery is a frame on its way to the driver.
type delivery struct {
	rest   int    // bytes that have no place yet, header included
	header []byte // where the header is to be written; nil: not known yet
	// ownHeader says that this is not the driver's memory: the header did not
	// fit in the first piece of it, and is copied like data.
	ownHeader bool
	lead      []byte // what is left of that header
	src       [][]byte

	copies, buffers int // of the burst, before this frame
}

// fillBuffer takes the driver's next buffer for as much of f as fits.
func (q *Queue) fillBuffer(f *delivery) bool {
	head, pieces, ok := q.nextChain()
	if !ok {
		return false
	}
	before := f.rest
	for _, p := range pieces {
		dst, ok := q.slice(p.Addr, p.Len)
		if !p.Write || !ok {
			return q.ring.Fail("descriptor address", "it is not shared memory to write in a receive queue", p.Addr)
		}
		dst = dst[:min(len(dst), f.rest)]
		f.rest -= len(dst)
		q.place(f, dst)
	}
	q.done = append(q.done, ring.Completion{Head: head, Len: uint32(before - f.rest)})
	return true
}

// place notes what of f is to be copied to dst, and fills it.
func (q *Queue) place(f *delivery, dst []byte) {
	if f.header == nil {
		if len(dst) >= q.headerSize {
			f.header, dst = dst[:q.headerSize], dst[q.headerSize:]
		} else {
			f.header, f.ownHeader = q.header[:q.headerSize], true
			f.lead = f.header
		}
	}
	for len(dst) > 0 {
		from := &f.lead
		if len(f.lead) == 0 {
			from = &f.src[0]
		}
		n := min(len(dst), len(*from))
		q.copies = append(q.copies, copyJob{dst[:n], (*from)[:n]})
		dst, *from = dst[n:], (*from)[n:]
		if len(f.src[0]) == 0 {
			f.src = f.src[1:]
		}
	}
}

// nextChain gives the next chain of the stock, which it fills when it is empty.
func (q *Queue) nextChain() (head uint16, pieces []ring.Piece, ok bool) {
	s := &q.stock
	if len(s.chains) == 0 {
		s.chains = q.chains[:q.ring.Take(q.chains[:s.want], q.pieces[:])]
		s.pieces, s.want = q.pieces[:], queueBurst
		if len(s.chains) == 0 {
			return 0, nil, false
		}
	}
	c := s.chains[0]
	pieces = s.pieces[:c.Pieces]
	s.chains, s.pieces = s.chains[1:], s.pieces[c.Pieces:]
	return c.Head, pieces, true
}

// undo puts back the chains that f has taken, and those behind them.
func (q *Queue) undo(f *delivery) {
	q.ring.Return(len(q.done) - f.buffers + len(q.stock.chains))
	q.stock.chains = nil
	q.copies, q.done = q.copies[:f.copies], q.done[:f.buffers]
}
