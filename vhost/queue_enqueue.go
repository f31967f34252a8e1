package vhost

import (
	"encoding/binary"

	"vionet/mbuf"

	"vionet/ring"
	"vionet/virtio"
)

// stock is chains of a receive queue that were taken before they were needed, and
// are used up one after the other. What is left of it waits for the next burst.
type stock struct {
	taken, pieces    int // chains in Queue.chains, and their pieces in Queue.pieces
	used, usedPieces int // of those, from the front
	want             int // chains to take next time; 0: there are no more
}

// left is the number of chains that are not used up.
func (s *stock) left() int { return s.taken - s.used }

// job is bytes that are to be written at the end of a burst to a place of their
// own, see Queue.places. Nothing is written to the driver's memory before: each
// write may have to wait for a cache line from the driver's processor, and
// whatever this processor writes after it waits, too.
type job struct {
	src    []byte
	header bool   // the place begins with a header, of which
	low    uint64 // these are the first 8 bytes,
	high   uint32 // and these the others
}

// do writes to dst, behind a header of that size where there is one.
func (j *job) do(dst []byte, headerSize int) {
	if j.header {
		binary.LittleEndian.PutUint64(dst, j.low)
		if headerSize >= virtio.NetHeaderSize {
			binary.LittleEndian.PutUint32(dst[8:], j.high)
		} else {
			binary.LittleEndian.PutUint16(dst[8:], uint16(j.high))
		}
		dst = dst[headerSize:]
	}
	copy(dst, j.src)
}

// setHeader says what the header asks for, nil for nothing, and in how many
// buffers the frame is.
func (j *job) setHeader(h *virtio.NetHeader, buffers int) {
	j.low, j.high = 0, uint32(buffers)<<16
	if h != nil {
		j.encode(h, buffers)
	}
}

func (j *job) encode(h *virtio.NetHeader, buffers int) {
	b := encodeHeader(h, buffers)
	j.low, j.high = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint32(b[8:])
}

// newJob gives the job for a place, to be filled in where it stays: it is too
// large for registers, and on the way over the stack it would wait for all writes
// before it.
func (q *Queue) newJob(place []byte) *job {
	q.places = append(q.places, place)
	n := len(q.places)
	if n > len(q.jobs) {
		q.jobs = append(q.jobs, make([]job, n)...)
	}
	return &q.jobs[n-1]
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
		if !q.deliver(&f.Header, f.Data, nil, len(f.Data)) {
			break
		}
		n++
	}
	q.endDelivery()
	return n
}

// beginDelivery begins a burst of about n frames to the driver.
func (q *Queue) beginDelivery(n int) {
	q.places, q.done, q.writes = q.places[:0], q.done[:0], q.writes[:0]
	q.stock.want = min(n, queueBurst)
}

// endDelivery ends a burst: it copies all data, and shows it to the driver.
func (q *Queue) endDelivery() {
	q.copyNow()
	q.ring.Complete(q.done)
	q.flush()
	q.lookAhead()
	if q.ring.Err() != nil {
		q.putBack() // a broken queue is silent, even if it was not yet where these were taken
	}
}

// lookAhead takes chains for a burst like the one that has just ended. The cache
// lines of their buffers, which the driver's processor may still have, arrive
// while that burst is on its way.
func (q *Queue) lookAhead() {
	s := &q.stock
	more := min(len(q.done), queueBurst) - s.left()
	if more <= 0 || s.pieces-s.usedPieces > queueBurst {
		return
	}
	copy(q.chains[:], q.chains[s.used:s.taken])
	copy(q.pieces[:], q.pieces[s.usedPieces:s.pieces])
	copy(q.coming[:], q.coming[s.used:s.taken])
	*s = stock{taken: s.left(), pieces: s.pieces - s.usedPieces}
	q.takeMore(more)
}

// takeMore adds up to n chains to the stock, and asks for the cache lines of
// their buffers.
func (q *Queue) takeMore(n int) {
	s := &q.stock
	chains := q.chains[s.taken:][:n]
	chains = chains[:q.ring.Take(chains, q.pieces[s.pieces:])]
	coming := q.coming[s.taken:][:len(chains)]
	s.taken += len(chains)
	for i, c := range chains {
		p := &q.pieces[s.pieces]
		s.pieces += int(c.Pieces)
		if place, ok := q.region.slice(p.Addr, p.Len); ok && c.Pieces == 1 && p.Write {
			coming[i] = place
		} else {
			coming[i] = nil
		}
	}
	mbuf.PrefetchWrite(coming)
}

// copyNow does the jobs that were left for later, and then notes them where a
// guest is about to move.
func (q *Queue) copyNow() {
	for i, dst := range q.places {
		q.jobs[i].do(dst, q.headerSize)
	}
	q.places = q.places[:0]
	if q.dirty != nil {
		q.markWritten()
	}
}

// deliverPlain writes packets from the front of bufs to the driver that are like
// most, of one segment and without a request, into buffers of one piece that have
// room for them. It returns how many.
func (q *Queue) deliverPlain(bufs []*mbuf.Buf) (n int) {
	s, headerSize := &q.stock, q.headerSize
	if headerSize != virtio.NetHeaderSize || q.dirty != nil || s.left() == 0 && !q.restock() {
		return 0
	}
	bufs = bufs[:min(len(bufs), s.left())]
	chains, places, done := q.chains[s.used:][:len(bufs)], q.coming[s.used:][:len(bufs)], q.done
	bytes := 0
	for i, b := range bufs {
		size := b.Len()
		if b.Next() != nil || b.Flags&portRequests != 0 || len(places[i]) < headerSize+size {
			break
		}
		done = append(done, ring.Completion{Head: chains[i].Head, Len: uint32(headerSize + size)})
		bytes += size
		n++
	}
	for i, b := range bufs[:n] {
		dst := places[i]
		binary.LittleEndian.PutUint64(dst, 0)
		binary.LittleEndian.PutUint32(dst[8:], 1<<16) // it is in one buffer
		copy(dst[virtio.NetHeaderSize:], b.Bytes())
	}
	q.done = done
	s.used += n
	s.usedPieces += n
	q.stats.Frames += uint64(n)
	q.stats.Bytes += uint64(bytes)
	return n
}

// deliver writes one frame of size bytes, which are data and more, to the driver;
// a nil header asks for nothing. This one function serves drivers with mergeable
// receive buffers, whose frames may lie in several, and drivers without. The
// data is copied with that of the whole burst, and stays as it is until copyNow or
// endDelivery. It is false, with nothing written, when the driver has too few
// buffers. A frame that fits in no number of them is dropped.
func (q *Queue) deliver(h *virtio.NetHeader, data []byte, more [][]byte, size int) bool {
	s := &q.stock
	if s.left() == 0 && !q.restock() {
		return false
	}
	need := q.headerSize + size
	if dst := q.coming[s.used]; len(data) == size && len(dst) >= need && q.dirty == nil {
		// The usual case: one buffer of one piece has room for all of it.
		q.done = append(q.done, ring.Completion{Head: q.chains[s.used].Head, Len: uint32(need)})
		s.used++
		s.usedPieces++
		j := q.newJob(dst[:need])
		j.src, j.header = data, true
		j.setHeader(h, 1)
		q.count(size)
		return true
	}
	return q.spread(h, data, more, size)
}

// spread is deliver for a frame, in any number of pieces, that may take any
// number of buffers, which consist of any number of pieces.
func (q *Queue) spread(h *virtio.NetHeader, data []byte, more [][]byte, size int) bool {
	before := q.progress()
	src := append(append(q.src[:0], data), more...)
	q.src = src
	placed := false // the header has a place
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
			if !q.find(p, want) {
				q.stock.used-- // this chain goes back, too
				q.undo(before)
				return false
			}
			for _, dst := range q.parts {
				if !placed {
					src, placed = q.placeHeader(dst, src), true
				} else {
					src = q.note(dst, src)
				}
			}
			if q.dirty != nil {
				q.writes = append(q.writes, dirtyRange{p.Addr, want})
			}
		}
		q.done = append(q.done, ring.Completion{Head: head, Len: uint32(start - rest)})
	}
	q.writeHeader(&q.jobs[before.jobs], h, len(q.done)-before.buffers)
	q.count(size)
	return true
}

// find puts the places of the first n bytes of a piece into q.parts. It is false
// when it breaks a rule, and when they are not known yet.
func (q *Queue) find(p ring.Piece, n int) bool {
	if !p.Write {
		return q.ring.Fail("descriptor flags", "a buffer to read in a receive queue", 0)
	}
	if dst, ok := q.slice(p.Addr, uint32(n)); ok {
		q.parts = append(q.parts[:0], dst)
		return true
	}
	return q.reach(p, uint32(n))
}

// note has dst filled from the front of src when the burst's bytes are copied,
// and gives what is left of src.
func (q *Queue) note(dst []byte, src [][]byte) [][]byte {
	for len(dst) > 0 {
		from := src[0]
		n := min(len(dst), len(from))
		j := q.newJob(dst[:n])
		j.src, j.header = from[:n], false
		dst = dst[n:]
		if n == len(from) {
			src = src[1:]
		} else {
			src[0] = from[n:]
		}
	}
	return src
}

// placeHeader notes that the frame's header, and behind it data from the front of
// src, is to be written to dst, and gives what is left of src. In the rare case
// that the header is too long for dst, it is copied like data from a place of its
// own.
func (q *Queue) placeHeader(dst []byte, src [][]byte) [][]byte {
	if len(dst) < q.headerSize {
		q.split = append(append(q.split[:0], q.header[:q.headerSize]), src...)
		return q.note(dst, q.split)
	}
	n := min(len(dst)-q.headerSize, len(src[0]))
	j := q.newJob(dst[:q.headerSize+n])
	j.src, j.header = src[0][:n], true
	src[0] = src[0][n:]
	return q.note(dst[q.headerSize+n:], src)
}

// writeHeader fills in a frame's header when the number of its buffers is known;
// j is the frame's first job.
func (q *Queue) writeHeader(j *job, h *virtio.NetHeader, buffers int) {
	if j.header {
		j.setHeader(h, buffers)
		return
	}
	q.header = encodeHeader(h, buffers)
	q.copyNow() // the next frame's header may take its place
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
	pieces = q.pieces[s.usedPieces:][:c.Pieces]
	s.used++
	s.usedPieces += len(pieces)
	return c.Head, pieces, true
}

// restock takes chains. When there were fewer than it wanted, the next call takes
// none, and only the one after that looks again: each look takes a cache line from a
// driver that writes to it.
func (q *Queue) restock() bool {
	want := q.stock.want
	q.stock = stock{}
	q.takeMore(want)
	if q.stock.taken == want {
		q.stock.want = queueBurst
	}
	return q.stock.taken > 0
}

// putBack makes the whole stock available again.
func (q *Queue) putBack() {
	q.ring.Return(q.stock.left())
	q.stock = stock{want: q.stock.want}
}

// progress is how far a burst to the driver is.
type progress struct{ jobs, buffers, writes int }

func (q *Queue) progress() progress {
	return progress{len(q.places), len(q.done), len(q.writes)}
}

// undo puts back the chains that were filled since, and those behind them.
func (q *Queue) undo(to progress) {
	q.putBack()
	q.ring.Return(len(q.done) - to.buffers)
	q.stock.want = queueBurst
	q.places, q.done, q.writes = q.places[:to.jobs], q.done[:to.buffers], q.writes[:to.writes]
}
