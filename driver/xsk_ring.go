package driver

import (
	"fmt"
	"sync/atomic"

	"vionet/port"
	"vionet/ring"
)

// XSKDesc is an entry of an XSK's tx and rx rings: struct xdp_desc of AF_XDP.
type XSKDesc struct {
	Addr    uint64 // offset of the data in the UMEM, in bytes
	Len     uint32 // bytes
	Options XSKOptions
}

// XSKOptions are the options of an XSKDesc, with the values that they have in
// AF_XDP.
type XSKOptions uint32

const (
	// XSKContinued: the frame goes on in the next descriptor (XDP_PKT_CONTD).
	XSKContinued XSKOptions = 1 << iota
	// XSKMetadata: UMEM.Meta says what the device is asked to do to the frame
	// (XDP_TX_METADATA). It stands in a frame's first descriptor.
	XSKMetadata
)

// xskRing is what the two sides of a ring share. Each index is written by one
// side alone and lies in a cache line of its own; it publishes the entries
// below it, as the words do that package ring describes.
type xskRing[T any] struct {
	slots    []T
	_        [40]byte
	produced uint32
	_        [60]byte
	consumed uint32
	_        [60]byte
	asleep   atomic.Bool // the consumer is, and must be woken
	_        [60]byte
}

// newXSKRing makes a ring of size entries and its two sides.
func newXSKRing[T any](name string, size int) (*ProducerRing[T], *ConsumerRing[T], error) {
	if size < 1 || size > maxXSKRing || size&(size-1) != 0 {
		return nil, nil, fmt.Errorf("%w: %s ring of %d entries: must be a power of two, at most %d", port.ErrInvalid, name, size, maxXSKRing)
	}
	r := &xskRing[T]{slots: make([]T, size)}
	return &ProducerRing[T]{ring: r}, &ConsumerRing[T]{ring: r}, nil
}

// maxXSKRing bounds the entries of a ring.
const maxXSKRing = 1 << 20

// beyond is a constant, so that Slot and At are small enough to be inlined.
const beyond = "driver: a ring entry that was not reserved or peeked at"

// ProducerRing is the side of a ring that fills it: the application's of a fill
// and of a tx ring. One goroutine at a time calls its methods.
type ProducerRing[T any] struct {
	ring     *xskRing[T]
	next     uint32 // the next slot to publish
	consumed uint32 // the other side's index, as seen last
	reserved uint32
	_        [44]byte // the other side's goroutine writes elsewhere
}

// Reserve sets up to n slots aside, in place of any that were reserved and not
// submitted, and returns how many. Fill those with Slot, then call Submit.
func (r *ProducerRing[T]) Reserve(n int) int {
	size := uint32(len(r.ring.slots))
	want := uint32(min(max(n, 0), int(size)))
	if size-(r.next-r.consumed) < want {
		r.consumed = atomic.LoadUint32(&r.ring.consumed)
	}
	r.reserved = min(want, size-(r.next-r.consumed))
	return int(r.reserved)
}

// Slot is reserved slot i, below what Reserve returned; it panics beyond. It is
// the caller's until Submit.
func (r *ProducerRing[T]) Slot(i int) *T {
	if uint(i) >= uint(r.reserved) {
		panic(beyond)
	}
	return &r.ring.slots[(r.next+uint32(i))&uint32(len(r.ring.slots)-1)]
}

// Submit shows the first n of the reserved slots to the other side, and gives
// the rest of them back. More than were reserved is an error that wraps
// port.ErrInvalid and changes nothing.
func (r *ProducerRing[T]) Submit(n int) error {
	if n < 0 || n > int(r.reserved) {
		return fmt.Errorf("%w: submit %d slots of %d that are reserved", port.ErrInvalid, n, r.reserved)
	}
	r.reserved = 0
	if n > 0 {
		r.next += uint32(n)
		ring.ReleaseStore32(&r.ring.produced, r.next)
	}
	return nil
}

// put submits all of src, for which there is room: Reserve, Slot and Submit for
// the driver's own side, without a look at each slot.
func (r *ProducerRing[T]) put(src []T) {
	slots := r.ring.slots
	n := copy(slots[r.next&uint32(len(slots)-1):], src)
	copy(slots, src[n:])
	r.reserved = uint32(len(src))
	r.Submit(len(src)) // there is room
}

// Free is the number of slots that can be reserved now.
func (r *ProducerRing[T]) Free() int {
	r.consumed = atomic.LoadUint32(&r.ring.consumed)
	return len(r.ring.slots) - int(r.next-r.consumed)
}

// Size is the number of slots.
func (r *ProducerRing[T]) Size() int { return len(r.ring.slots) }

// NeedWakeup reports whether the other side sleeps and what was submitted waits
// until XSK.Wakeup, or a Poll (XDP_RING_NEED_WAKEUP). Ask after Submit.
func (r *ProducerRing[T]) NeedWakeup() bool {
	// The other side says that it sleeps, and then looks at the index once more:
	// between showing that and asking there has to be a fence.
	atomic.SwapUint32(&r.ring.produced, r.next)
	return r.ring.asleep.Load()
}

// ConsumerRing is the side of a ring that empties it: the application's of a
// completion and of an rx ring. One goroutine at a time calls its methods.
type ConsumerRing[T any] struct {
	ring     *xskRing[T]
	next     uint32 // the next entry to release
	produced uint32 // the other side's index, as seen last
	peeked   uint32
	_        [44]byte // the other side's goroutine writes elsewhere
}

// Peek looks for up to n entries and returns how many there are. Read them with
// At, then call Release.
func (r *ConsumerRing[T]) Peek(n int) int {
	want := uint32(min(max(n, 0), len(r.ring.slots)))
	if r.produced-r.next < want {
		r.produced = atomic.LoadUint32(&r.ring.produced)
	}
	r.peeked = min(want, r.produced-r.next)
	return int(r.peeked)
}

// At is entry i, below what Peek returned; it panics beyond. It may be read
// until Release.
func (r *ConsumerRing[T]) At(i int) *T {
	if uint(i) >= uint(r.peeked) {
		panic(beyond)
	}
	return &r.ring.slots[(r.next+uint32(i))&uint32(len(r.ring.slots)-1)]
}

// Release gives the slots of the first n entries back; the next Peek sees the
// others again. More than were peeked at is an error that wraps port.ErrInvalid
// and changes nothing.
func (r *ConsumerRing[T]) Release(n int) error {
	if n < 0 || n > int(r.peeked) {
		return fmt.Errorf("%w: release %d entries of %d that were peeked at", port.ErrInvalid, n, r.peeked)
	}
	r.peeked = 0
	if n > 0 {
		r.next += uint32(n)
		ring.ReleaseStore32(&r.ring.consumed, r.next)
	}
	return nil
}

// take moves entries to dst, as many as there are and it holds, and returns how
// many: Peek, At and Release for the driver's own side.
func (r *ConsumerRing[T]) take(dst []T) int {
	slots := r.ring.slots
	dst = dst[:r.Peek(len(dst))]
	n := copy(dst, slots[r.next&uint32(len(slots)-1):])
	copy(dst[n:], slots)
	r.Release(len(dst)) // that many were peeked at
	return len(dst)
}

// Size is the number of slots.
func (r *ConsumerRing[T]) Size() int { return len(r.ring.slots) }
