package vhost

import (
	"vionet/mbuf"
	"vionet/ring"
	"vionet/virtio"
)

// takenFrame is a frame that the driver has sent, in memory that the driver can
// still write to.
type takenFrame struct {
	head        uint16
	first, last int // its data is in q.src[first:last]
	size        int // bytes
	header      virtio.NetHeader
	headerLeft  int // bytes that were not found yet
}

// Dequeue takes up to len(frames) frames that the driver has sent, from a
// transmit queue. Each is copied to the Data of its Frame, up to its capacity;
// a longer one is dropped. It returns how many there are, and never waits.
func (q *Queue) Dequeue(frames []Frame) (n int) {
	defer q.leave(q.enter())
	if q.ring == nil {
		return 0
	}
	for n < len(frames) {
		taken := q.take(len(frames) - n)
		if len(taken) == 0 {
			break
		}
		for i := range taken {
			t, f := &taken[i], &frames[n]
			if t.size > cap(f.Data) {
				q.stats.Dropped++
				continue
			}
			f.Header, f.Data = t.header, f.Data[:t.size]
			gather(f.Data, q.data(t))
			q.count(t.size)
			n++
		}
		q.giveBack(taken)
	}
	q.flush()
	return n
}

// take takes up to n frames, at most queueBurst, that the driver has sent. The
// caller completes them with giveBack, or puts the last ones back with
// ring.Return.
func (q *Queue) take(n int) []takenFrame { return q.open(q.takeChains(n)) }

// takeChains takes up to n chains, at most queueBurst, into q.chains and q.pieces.
func (q *Queue) takeChains(n int) []ring.Chain {
	return q.chains[:q.ring.Take(q.chains[:min(n, queueBurst)], q.pieces[:])]
}

// openPlain puts the data of chains into q.src that are all like most: one piece,
// for which the driver asks nothing, with least to most bytes behind the header.
// It is false when one is not.
func (q *Queue) openPlain(chains []ring.Chain, least, most int) bool {
	if q.requests {
		return false
	}
	src, region, headerSize := q.src[:0], q.region, q.headerSize
	pieces := q.pieces[:len(chains)] // one each, or the first that has more ends this
	for i, c := range chains {
		p := &pieces[i]
		b, ok := region.slice(p.Addr, p.Len)
		if !ok || c.Pieces != 1 || p.Write || len(b) < headerSize+least || len(b) > headerSize+most {
			return false
		}
		src = append(src, b[headerSize:])
	}
	q.src = src
	mbuf.PrefetchRead(src)
	return true
}

// open finds the frames in chains that were taken. The chains from the first on
// that it can't open go back.
func (q *Queue) open(chains []ring.Chain) []takenFrame {
	q.src = q.src[:0]
	headerSize, pieces := q.headerSize, q.pieces[:]
	for i, c := range chains {
		f := &q.frames[i]
		f.head, f.first = c.Head, len(q.src)
		p := &pieces[0]
		b, ok := q.region.slice(p.Addr, p.Len)
		if ok && c.Pieces == 1 && !p.Write && !q.requests && len(b) > headerSize && len(b) <= maxFrame {
			// The usual case: one piece that the driver asks nothing for.
			f.header, f.size, f.last = virtio.NetHeader{}, len(b)-headerSize, f.first+1
			q.src = append(q.src, b[headerSize:])
		} else if !q.openFrame(f, pieces[:c.Pieces]) {
			q.ring.Return(len(chains) - i)
			return q.frames[:i]
		}
		pieces = pieces[c.Pieces:]
	}
	mbuf.PrefetchRead(q.src)
	return q.frames[:len(chains)]
}

// data is the frame's data, piece by piece.
func (q *Queue) data(f *takenFrame) [][]byte { return q.src[f.first:f.last] }

// openFrame finds header and data of a frame in pieces, and appends the data to
// q.src. It is false when the driver broke a rule, and when a place in its memory
// is not known yet.
func (q *Queue) openFrame(f *takenFrame, pieces []ring.Piece) bool {
	f.header, f.size, f.headerLeft = virtio.NetHeader{}, 0, q.headerSize
	for _, p := range pieces {
		if p.Write {
			return q.ring.Fail("descriptor flags", "a buffer to write in a transmit queue", uint64(ring.DescWrite))
		}
		b, ok := q.slice(p.Addr, p.Len)
		switch {
		case ok:
			q.add(f, b)
		case p.Len > virtio.NetHeaderSize+maxFrame:
			return q.ring.Fail("descriptor length", "it is more than a header and a frame", uint64(p.Len))
		case !q.reach(p, p.Len):
			return false
		default:
			for _, part := range q.parts {
				q.add(f, part)
			}
		}
	}
	if f.headerLeft > 0 || f.size == 0 || f.size > maxFrame {
		return q.ring.Fail("chain length", "it does not hold a header and a frame behind it", uint64(f.size))
	}
	f.last = len(q.src)
	return true
}

// add takes b for the next bytes of a frame. A header is not read where no
// feature was negotiated that it could use.
func (q *Queue) add(f *takenFrame, b []byte) {
	switch {
	case f.headerLeft == 0:
	case f.headerLeft == q.headerSize && len(b) >= q.headerSize: // all of it, as usual
		if q.requests {
			f.header = virtio.DecodeNetHeader(b[:q.headerSize])
		}
		b, f.headerLeft = b[q.headerSize:], 0
	default:
		n := copy(q.header[q.headerSize-f.headerLeft:q.headerSize], b)
		b, f.headerLeft = b[n:], f.headerLeft-n
		if f.headerLeft == 0 {
			f.header = virtio.DecodeNetHeader(q.header[:q.headerSize])
		}
	}
	if len(b) > 0 {
		q.src = append(q.src, b)
		f.size += len(b)
	}
}

// giveBack completes frames, in the order in which they were taken.
func (q *Queue) giveBack(frames []takenFrame) {
	q.done = q.done[:0]
	for i := range frames {
		q.done = append(q.done, ring.Completion{Head: frames[i].head})
	}
	q.ring.Complete(q.done)
}

// complete completes chains, in the order in which they were taken.
func (q *Queue) complete(chains []ring.Chain) {
	q.done = q.done[:0]
	for _, c := range chains {
		q.done = append(q.done, ring.Completion{Head: c.Head})
	}
	q.ring.Complete(q.done)
}

// gather copies src, one after the other, into dst, which is long enough.
func gather(dst []byte, src [][]byte) {
	for _, s := range src {
		dst = dst[copy(dst, s):]
	}
}
