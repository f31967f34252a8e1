package vhost

import (
	"errors"
	"log/slog"
	"sync"

	"vionet/ring"
	"vionet/virtio"
)

// maxPieces bounds the descriptors of one frame, over all its buffers.
const maxPieces = 1024

// maxFrame is the longest frame in bytes: 64 KiB to be segmented, behind its
// headers.
const maxFrame = 65536 + 256

// Frame is one packet outside the front end's memory. Its header is the
// driver's, or for the driver as it is, but for the number of buffers.
type Frame struct {
	Header virtio.NetHeader
	Data   []byte
}

// QueueStats counts what a queue did since its Backend was made.
type QueueStats struct {
	Frames, Bytes uint64 // of Ethernet frames, without the header
	Dropped       uint64 // frames too long for where they should have gone
}

// Queue is the device's side of one virtqueue of a Backend. It lives as long as
// the Backend and works while a front end has the ring enabled: at other times
// there are neither frames nor room. Its methods may be called from any
// goroutine; one goroutine at a time makes progress.
//
// The lock is taken once for a burst. A front end that stops the ring or takes
// its memory away waits for it, so that no burst ever works on memory that is
// gone.
type Queue struct {
	index  int
	log    *slog.Logger
	kicked chan struct{} // a signal after kicks, and after each start

	mu         sync.Mutex
	ring       ring.Device // nil: stopped or disabled
	mem        *guestMemory
	call       *eventfd // nil: none
	headerSize int
	features   virtio.Features // negotiated
	stats      QueueStats
	reported   bool // the broken rule was logged

	dirty *dirtyLog    // where writes to the driver's memory are noted; nil: nowhere
	areas []dirtyRange // that a flush writes to, while dirty is not nil

	// Scratch of one frame.
	pieces  []ring.Piece
	src     [][]byte
	dst     [][]byte
	buffers []rxBuffer
	header  [virtio.NetHeaderSize]byte
}

// rxBuffer is a chain that a frame, or a part of it, is written to.
type rxBuffer struct {
	head uint16
	room int // bytes
}

func newQueue(index int, log *slog.Logger) *Queue {
	return &Queue{index: index, log: log, kicked: make(chan struct{}, 1), pieces: make([]ring.Piece, maxPieces)}
}

// start makes the queue work on a ring.
func (q *Queue) start(r ring.Device, mem *guestMemory, features virtio.Features) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ring, q.mem, q.features, q.reported = r, mem, features, false
	q.headerSize = virtio.HeaderSize(features)
}

// wake signals whoever waits for the driver.
func (q *Queue) wake() {
	select {
	case q.kicked <- struct{}{}:
	default:
	}
}

// stop returns when no burst works on the ring any more.
func (q *Queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ring, q.mem, q.dirty = nil, nil, nil
	clear(q.src[:cap(q.src)])
	clear(q.dst[:cap(q.dst)])
}

// setCall gives the queue the eventfd that interrupts the driver; the one
// before it is closed.
func (q *Queue) setCall(call *eventfd) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.call.close()
	q.call = call
}

// Stats reads the counters.
func (q *Queue) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// Err is nil, or the rule that the driver broke on the ring; the queue is then
// silent until the front end starts it anew.
func (q *Queue) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil {
		return nil
	}
	return q.ring.Err()
}

// Running reports whether a front end has the ring enabled.
func (q *Queue) Running() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ring != nil
}

// Dequeue takes up to len(frames) frames that the driver has sent, from a
// transmit queue. Each is copied to the Data of its Frame, up to its capacity;
// a longer one is dropped. It returns how many there are, and never waits.
func (q *Queue) Dequeue(frames []Frame) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil {
		return 0
	}
	n := 0
	for range frames {
		head, header, size, ok := q.take()
		if !ok {
			break
		}
		f := &frames[n]
		if size <= cap(f.Data) {
			f.Header, f.Data = header, f.Data[:size]
			gather(f.Data, q.src)
			q.count(size)
			n++
		} else {
			q.stats.Dropped++
		}
		q.ring.Complete(head, 0)
	}
	q.flush()
	return n
}

// Enqueue copies frames to the driver, over a receive queue, and returns how
// many were taken: fewer when the driver has no buffers left. A frame that
// could never fit is taken and dropped.
func (q *Queue) Enqueue(frames []Frame) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil {
		return 0
	}
	n := 0
	for n < len(frames) {
		f := &frames[n]
		q.src = append(q.src[:0], q.header[:q.headerSize], f.Data)
		if !q.deliver(f.Header, len(f.Data)) {
			break
		}
		n++
	}
	q.flush()
	return n
}

func (q *Queue) count(size int) {
	q.stats.Frames++
	q.stats.Bytes += uint64(size)
}

// SetNotify says whether the driver shall kick when it makes new buffers
// available. Frames that came before it was switched on come without a kick.
func (q *Queue) SetNotify(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring != nil {
		q.ring.Notify(on)
	}
}

// Pending is the number of buffers that the driver has made available: of a
// packed virtqueue 1 or 0, for some or none.
func (q *Queue) Pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil {
		return 0
	}
	return q.ring.Pending()
}

// flush ends a burst: it shows the driver what was completed, and reports a
// broken rule once.
func (q *Queue) flush() {
	interrupt := q.ring.Flush()
	if q.dirty != nil {
		q.markUsed()
	}
	if interrupt && q.call != nil {
		q.call.signal()
	}
	q.report()
}

// report logs a broken rule once.
func (q *Queue) report() {
	if err := q.ring.Err(); err != nil && !q.reported {
		q.reported = true
		q.log.Error("vhost: the queue is stopped until the driver resets it", "queue", q.index, "cause", err)
	}
}

// take takes the next frame that the driver has sent: its header, and in q.src
// its data, in memory that the driver can still write to. The caller completes
// head.
func (q *Queue) take() (head uint16, h virtio.NetHeader, size int, ok bool) {
	head, n, ok := q.ring.Take(q.pieces)
	if !ok {
		return 0, h, 0, false
	}
	q.src = q.src[:0]
	for _, p := range q.pieces[:n] {
		if p.Write {
			return 0, h, 0, q.ring.Fail("descriptor flags", "a buffer to write in a transmit queue", uint64(ring.DescWrite))
		}
		if size += int(p.Len); size > q.headerSize+maxFrame {
			break
		}
		if q.src, ok = q.reach(q.src, p, p.Len, 1); !ok {
			return 0, h, 0, false
		}
	}
	if size -= q.headerSize; size <= 0 || size > maxFrame {
		return 0, h, 0, q.ring.Fail("chain length", "it does not hold a header and a frame behind it", uint64(size))
	}
	q.src = cutHeader(q.header[:q.headerSize], q.src)
	return head, virtio.DecodeNetHeader(q.header[:q.headerSize]), size, true
}

// reach adds the host memory of the first n bytes of a piece to dst. It is
// false when there is no such memory, which breaks a rule, and when it is not
// known yet: then the last taken chains are put back, to be taken again.
func (q *Queue) reach(dst [][]byte, p ring.Piece, n uint32, taken int) ([][]byte, bool) {
	if b, ok := q.mem.slice(p.Addr, n); ok {
		return append(dst, b), true
	}
	dst, err := q.mem.spread(dst, p.Addr, n, p.Write)
	if errors.Is(err, errMissed) {
		q.ring.Return(taken)
		return dst, false
	}
	if err != nil {
		return dst, q.ring.Fail("descriptor address", err.Error(), p.Addr)
	}
	return dst, true
}

// cutHeader moves the first bytes of src, which has more, to header.
func cutHeader(header []byte, src [][]byte) [][]byte {
	gone := 0
	for len(header) > 0 {
		n := copy(header, src[gone])
		header = header[n:]
		if src[gone] = src[gone][n:]; len(src[gone]) == 0 {
			gone++
		}
	}
	return append(src[:0], src[gone:]...)
}

// deliver writes one frame of size bytes to the driver: q.src holds q.header
// and behind it the data. It is false, with nothing changed, when the driver
// has too few buffers. A frame that fits in no number of them is dropped.
func (q *Queue) deliver(h virtio.NetHeader, size int) bool {
	ok, tooLong := q.takeRoom(q.headerSize + size)
	if tooLong {
		q.stats.Dropped++
		return true
	}
	if !ok {
		return false
	}
	h.NumBuffers = uint16(len(q.buffers))
	h.Encode(q.header[:q.headerSize])
	scatter(q.dst, q.src)
	if q.dirty != nil {
		q.markWritten(q.headerSize + size)
	}
	rest := q.headerSize + size
	for _, b := range q.buffers {
		written := min(b.room, rest)
		rest -= written
		q.ring.Complete(b.head, uint32(written))
	}
	q.count(size)
	return true
}

// takeRoom takes chains with room for need bytes: one, or with mergeable
// buffers as many as it takes. It takes none when that cannot be.
func (q *Queue) takeRoom(need int) (ok, tooLong bool) {
	q.buffers, q.dst = q.buffers[:0], q.dst[:0]
	used := 0
	for room := 0; room < need; {
		if n := len(q.buffers); n == q.ring.Size() || n == 1 && !q.features.Has(virtio.NetMrgRxbuf) {
			q.ring.Return(n)
			return false, true
		}
		head, n, ok := q.ring.Take(q.pieces[used:])
		if !ok {
			q.ring.Return(len(q.buffers))
			return false, false
		}
		b := rxBuffer{head: head}
		for _, p := range q.pieces[used : used+n] {
			if !p.Write {
				return q.ring.Fail("descriptor flags", "a buffer to read in a receive queue", 0), false
			}
			wanted := min(p.Len, uint32(need-room-b.room))
			if q.dst, ok = q.reach(q.dst, p, wanted, len(q.buffers)+1); !ok {
				return false, false
			}
			b.room += int(wanted)
		}
		used += n
		room += b.room
		q.buffers = append(q.buffers, b)
	}
	return true, false
}

// gather copies src, one after the other, into dst, which is long enough.
func gather(dst []byte, src [][]byte) {
	for _, s := range src {
		dst = dst[copy(dst, s):]
	}
}

// scatter copies src, one after the other, into dst, which has room enough.
func scatter(dst, src [][]byte) {
	at := 0
	for _, s := range src {
		for len(s) > 0 {
			n := copy(dst[at], s)
			s = s[n:]
			if dst[at] = dst[at][n:]; len(dst[at]) == 0 {
				at++
			}
		}
	}
}
