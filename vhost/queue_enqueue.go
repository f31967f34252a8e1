package vhost

import (
	"encoding/binary"

	"vionet/ring"
	"vionet/virtio"
)

// stock is chains of a receive queue that were taken for a burst, and are used up
// one after the other. What is left goes back at the burst's end.
type stock struct {
	taken, used int // chains, in Queue.chains
	pieces      int // of those used up, in Queue.pieces
	want        int // chains to take next time; 0: there are no more
}

// left is the number of chains that are not used up.
func (s *stock) left() int { return s.taken - s.used }

// copyJob is bytes that are to be copied at the end of a burst. Nothing is
// written to the driver's memory before: each write may have to wait for a cache
// line from the driver's processor, and whatever this processor writes after it
// waits, too.
type copyJob struct{ dst, src []byte }

// headerJob is a header that is to be written at the end of a burst.
type headerJob struct {
	dst  []byte
	low  uint64 // the first 8 bytes
	high uint32 // the others
}

func (j *headerJob) write() {
	binary.LittleEndian.PutUint64(j.dst, j.low)
	if len(j.dst) >= virtio.NetHeaderSize {
		binary.LittleEndian.PutUint32(j.dst[8:], j.high)
	} else {
		binary.LittleEndian.PutUint16(j.dst[8:], uint16(j.high))
	}
}

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
		if !q.deliver(&f.Header, q.src, len(f.Data)) {
			break
		}
		n++
	}
	q.endDelivery()
	return n
}

// beginDelivery begins a burst of about n frames to the driver.
func (q *Queue) beginDelivery(n int) {
	q.headers, q.copies, q.done, q.writes = q.headers[:0], q.copies[:0], q.done[:0], q.writes[:0]
	q.stock = stock{want: min(n, queueBurst)}
}

// endDelivery ends a burst: it copies all data, and shows it to the driver.
func (q *Queue) endDelivery() {
	q.copyNow()
	q.ring.Complete(q.done)
	q.ring.Return(q.stock.left())
	q.flush()
}

// copyNow does the copies that deliver has left for later, and then notes them
// where a guest is about to move.
func (q *Queue) copyNow() {
	for i := range q.headers {
		q.headers[i].write()
	}
	for i := range q.copies {
		copy(q.copies[i].dst, q.copies[i].src)
	}
	q.headers, q.copies = q.headers[:0], q.copies[:0]
	if q.dirty != nil {
		q.markWritten()
	}
}

// deliver writes one frame of size bytes, which are in src, to the driver; a nil
// header asks for nothing. This one function serves drivers with mergeable
// receive buffers, whose frames may lie in several, and drivers without. The
// data is copied with that of the whole burst: what src refers to stays as it is
// until copyNow or endDelivery; the list itself is used up. It is false, with
// nothing written, when the driver has too few buffers. A frame that fits in no
// number of them is dropped.
func (q *Queue) deliver(h *virtio.NetHeader, src [][]byte, size int) bool {
	before := q.progress()
	var header []byte
	for rest := q.headerSize + size; rest > 0; {
		if n := len(q.done) - before.buffers; n > 0 && (!q.mergeable || n == q.ring.Size()) {
			q.undo(before)
			q.stats.Dropped++
			return true
		}
		head, pieces, ok := q.nextChain()
		if !ok {
			q.undo(before)
			return false
		}
		start := rest
		for _, p := range pieces {
			want := min(int(p.Len), rest)
			rest -= want
			if dst, ok := q.slice(p.Addr, uint32(want)); ok && p.Write {
				header, src = q.place(header, dst, src)
			} else if header, src, ok = q.placeApart(header, p, want, src); !ok {
				q.stock.used-- // this chain goes back, too
				q.undo(before)
				return false
			}
			if q.dirty != nil {
				q.writes = append(q.writes, dirtyRange{p.Addr, want})
			}
		}
		q.done = append(q.done, ring.Completion{Head: head, Len: uint32(start - rest)})
	}
	q.writeHeader(header, h, len(q.done)-before.buffers)
	q.count(size)
	return true
}

// place notes that dst, the driver's memory, is to be filled from the front of
// src, behind the header if that has no place yet. It gives the header's place
// and what is left of src.
func (q *Queue) place(header, dst []byte, src [][]byte) ([]byte, [][]byte) {
	if header == nil {
		header, dst, src = q.placeHeader(dst, src)
	}
	return header, q.note(dst, src)
}

// note has dst filled from the front of src when the burst's bytes are copied,
// and gives what is left of src.
func (q *Queue) note(dst []byte, src [][]byte) [][]byte {
	for len(dst) > 0 {
		from := src[0]
		n := min(len(dst), len(from))
		// A job is written where it stays: it is too large for registers, and
		// on the way over the stack it would wait for all writes before it.
		q.copies = append(q.copies, copyJob{})
		job := &q.copies[len(q.copies)-1]
		job.dst, job.src = dst[:n], from[:n]
		dst = dst[n:]
		if n == len(from) {
			src = src[1:]
		} else {
			src[0] = from[n:]
		}
	}
	return src
}

// placeApart is place for the first n bytes of a piece that slice knows no place
// for, or that must not be written. It is false when that breaks a rule, and when
// the place is not known yet.
func (q *Queue) placeApart(header []byte, p ring.Piece, n int, src [][]byte) ([]byte, [][]byte, bool) {
	if !p.Write {
		return nil, nil, q.ring.Fail("descriptor flags", "a buffer to read in a receive queue", 0)
	}
	if !q.reach(p, uint32(n)) {
		return nil, nil, false
	}
	for _, dst := range q.parts {
		header, src = q.place(header, dst, src)
	}
	return header, src, true
}

// placeHeader says where the header is to be written: at the start of dst. In
// the rare case that it is too long for that, it is copied like data from a
// place of its own. It gives what is left of dst, and what is to be copied.
func (q *Queue) placeHeader(dst []byte, src [][]byte) (header, restOfDst []byte, all [][]byte) {
	if len(dst) >= q.headerSize {
		return dst[:q.headerSize], dst[q.headerSize:], src
	}
	q.split = append(append(q.split[:0], q.header[:q.headerSize]), src...)
	return q.header[:q.headerSize], dst, q.split
}

// writeHeader notes a frame's header when the number of its buffers is known.
func (q *Queue) writeHeader(dst []byte, h *virtio.NetHeader, buffers int) {
	if &dst[0] == &q.header[0] {
		q.header = encodeHeader(h, buffers)
		q.copyNow() // the next frame's header may take its place
		return
	}
	q.headers = append(q.headers, headerJob{})
	j := &q.headers[len(q.headers)-1]
	j.dst, j.high = dst, uint32(buffers)<<16
	if h != nil {
		b := encodeHeader(h, buffers)
		j.low, j.high = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint32(b[8:])
	}
}

// encodeHeader is the header of a frame in so many buffers; nil asks for nothing.
func encodeHeader(h *virtio.NetHeader, buffers int) (b [virtio.NetHeaderSize]byte) {
	full := virtio.NetHeader{}
	if h != nil {
		full = *h
	}
	full.NumBuffers = uint16(buffers)
	full.Encode(b[:])
	return b
}

// nextChain gives the next chain of the stock, which it fills when it is empty.
func (q *Queue) nextChain() (head uint16, pieces []ring.Piece, ok bool) {
	s := &q.stock
	if s.left() == 0 {
		if !q.restock() {
			return 0, nil, false
		}
	}
	c := q.chains[s.used]
	pieces = q.pieces[s.pieces : s.pieces+int(c.Pieces)]
	s.used++
	s.pieces += len(pieces)
	return c.Head, pieces, true
}

// restock takes chains. When there were fewer than it wanted, it does not look
// again in the same burst: that would take a cache line from a driver that writes
// to it.
func (q *Queue) restock() bool {
	s := &q.stock
	want := s.want
	*s = stock{taken: q.ring.Take(q.chains[:want], q.pieces[:])}
	if s.taken == want {
		s.want = queueBurst
	}
	return s.taken > 0
}

// progress is how far a burst to the driver is.
type progress struct{ headers, copies, buffers, writes int }

func (q *Queue) progress() progress {
	return progress{len(q.headers), len(q.copies), len(q.done), len(q.writes)}
}

// undo puts back the chains that were filled since, and those behind them.
func (q *Queue) undo(to progress) {
	q.ring.Return(len(q.done) - to.buffers + q.stock.left())
	q.stock = stock{want: queueBurst}
	q.headers, q.copies = q.headers[:to.headers], q.copies[:to.copies]
	q.done, q.writes = q.done[:to.buffers], q.writes[:to.writes]
}
