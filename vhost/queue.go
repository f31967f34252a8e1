package vhost

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// maxPieces bounds the descriptors of one frame, over all its buffers, and those
// that are taken in one go.
const maxPieces = 1024

// queueBurst is the number of frames that move in one go.
const queueBurst = 64

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
	kicked chan struct{}                // a signal after kicks, and after each start
	bell   atomic.Pointer[port.EventFD] // signalled with it; nil: none

	mu         sync.Mutex
	ring       ring.Device // nil: stopped or disabled
	mem        *guestMemory
	call       *eventfd // nil: none
	headerSize int
	features   virtio.Features // negotiated
	mergeable  bool            // so are mergeable receive buffers
	requests   bool            // headers may ask for something
	trickles   bool            // the driver shows its buffers one by one, not a burst at a time
	lends      lendPolicy      // whether frames that the driver sends stay in its memory
	lending    *lending        // nil: none does
	draining   bool            // a ring that stops waits for lent frames
	stats      QueueStats
	reported   bool         // the broken rule was logged
	region     *guestRegion // the one looked at last

	dirty  *dirtyLog    // where writes to the driver's memory are noted; nil: nowhere
	areas  []dirtyRange // that a flush writes to, while dirty is not nil
	writes []dirtyRange // of this burst, in device addresses, while dirty is not nil

	// Scratch of one burst.
	chains [maxPieces]ring.Chain
	pieces [maxPieces + queueBurst]ring.Piece
	done   []ring.Completion
	frames [queueBurst]takenFrame // of a transmit queue
	stock  stock                  // of a receive queue
	coming [2 * queueBurst][]byte // places of its chains of one piece
	places [][]byte               // to be written to, in the driver's memory or in packets,
	jobs   []job                  // and what with
	src    [][]byte
	parts  [][]byte                   // of one piece that lies in several places
	split  [][]byte                   // a frame whose header is copied like data,
	header [virtio.NetHeaderSize]byte // and that header
}

func newQueue(index int, log *slog.Logger) *Queue {
	return &Queue{index: index, log: log, kicked: make(chan struct{}, 1)}
}

// start makes the queue work on a ring.
func (q *Queue) start(r ring.Device, mem *guestMemory, features virtio.Features) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ring, q.mem, q.features, q.reported, q.stock = r, mem, features, false, stock{}
	if q.region = &mem.regions[0]; mem.iotlb != nil {
		q.region = &guestRegion{} // no address lies in it
	}
	q.headerSize = virtio.HeaderSize(features)
	q.mergeable = features.Has(virtio.NetMrgRxbuf)
	q.trickles = features.Has(virtio.RingPacked)
	if q.mayLend() {
		q.lending = newLending(r.Size())
	}
	q.requests = features&(virtio.NetCSUM|virtio.NetHostTSO4|virtio.NetHostTSO6) != 0
}

// wake signals whoever waits for the driver.
func (q *Queue) wake() {
	select {
	case q.kicked <- struct{}{}:
	default:
	}
	if bell := q.bell.Load(); bell != nil {
		_ = bell.Signal() // closed: whoever waited has gone
	}
}

// stop returns when no burst works on the ring any more. It returns the lender
// of frames that are still in use in spite of that, if there are any: the memory
// stays mapped until it has them back.
func (q *Queue) stop() *mbuf.Lender {
	late := q.drain()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring != nil {
		q.putBack()
	}
	q.ring, q.mem, q.region, q.dirty = nil, nil, nil, nil
	return late
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

func (q *Queue) count(size int) {
	q.stats.Frames++
	q.stats.Bytes += uint64(size)
}

// SetNotify says whether the driver shall kick when it makes new buffers
// available. Frames that came before it was switched on come without a kick.
func (q *Queue) SetNotify(on bool) {
	defer q.leave(q.enter())
	if q.ring != nil {
		q.ring.Notify(on)
	}
}

// Pending is the number of buffers that the driver has made available, as far as
// it is known: a packed virtqueue shows one at a time.
func (q *Queue) Pending() int {
	defer q.leave(q.enter())
	if q.ring == nil {
		return 0
	}
	return q.stock.left() + q.ring.Pending()
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

// slice gives the n bytes at a device address, or false when they do not all
// lie in one region: see reach. It looks first where it looked last.
func (q *Queue) slice(addr uint64, n uint32) ([]byte, bool) {
	if b, ok := q.region.slice(addr, n); ok {
		return b, true
	}
	b, region := q.mem.find(addr, n)
	if region == nil {
		return nil, false
	}
	q.region = region
	return b, true
}

// reach gives the first n bytes of a piece for which slice knows no place, in
// several. It is false when there are none, which breaks a rule, and when they
// are not known yet: then the chain is to be put back, and taken again later.
func (q *Queue) reach(p ring.Piece, n uint32) (ok bool) {
	var err error
	q.parts, err = q.mem.spread(q.parts[:0], p.Addr, n, p.Write)
	if err != nil && !errors.Is(err, errMissed) {
		q.ring.Fail("descriptor address", err.Error(), p.Addr)
	}
	return err == nil
}
