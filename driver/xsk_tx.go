package driver

import (
	"errors"
	"fmt"

	"vionet/mbuf"
)

// maxXSKSegments is the number of descriptors that a frame may have.
const maxXSKSegments = 18

// xskTx is the sending half of an XSK. Frames become packets of a Lender, which
// go through the ordinary bursts and come back, freed, in whatever way the
// transmit queue, a stop or a reset frees packets.
type xskTx struct {
	ring   *ConsumerRing[XSKDesc]
	queue  *TxQueue // nil: the port is stopped
	lender *mbuf.Lender
	out    int // frames lent and not on the completion ring
	taken  uint64

	pending  []*mbuf.Buf // packets that the queue had no room for yet
	partial  xskPartial
	skipping bool // the rest of a frame of which a part was refused
	tokens   [burstSize]uint32
}

// xskPartial is a packet whose last descriptor was not seen yet.
type xskPartial struct {
	head, last *mbuf.Buf
	metadata   bool
}

// send moves up to a burst of frames to the device, and completes those that it
// is done with.
func (x *XSK) send() (moved int) {
	t := &x.tx
	if t.queue != nil {
		if !x.closing {
			moved = x.stage()
		}
		sent := t.queue.Burst(t.pending)
		t.pending = append(t.pending[:0], t.pending[sent:]...)
		// A queue that is busy reclaims for itself, late and many at a time. What
		// comes slower than a burst would wait too long for that.
		if moved < burstSize {
			t.queue.Reclaim()
		}
	}
	return moved + x.settle()
}

// stage takes descriptors from the tx ring: as many as there is room for among
// the completions, so that every frame has its place there when its time comes.
func (x *XSK) stage() int {
	t := &x.tx
	n := min(burstSize-len(t.pending), x.umem.completion.Free()-t.out)
	n = t.ring.Peek(n)
	for i := range n {
		x.take(*t.ring.At(i))
	}
	t.ring.Release(n) // that many were peeked at
	return n
}

// take makes a packet, or a part of one, of a descriptor.
func (x *XSK) take(d XSKDesc) {
	t := &x.tx
	t.taken++
	more := d.Options&XSKContinued != 0
	if t.skipping {
		x.complete(d)
		t.skipping = more
		return
	}
	if err := x.check(d); err != nil {
		x.refuse(d, err)
		t.skipping = more
		return
	}
	b := x.lend(d)
	p := &t.partial
	if p.head == nil {
		*p = xskPartial{head: b, metadata: d.Options&XSKMetadata != 0}
	} else {
		p.head.Link(p.last, b)
	}
	p.last = b
	if more {
		return
	}
	whole := *p
	*p = xskPartial{}
	if whole.metadata {
		if err := t.queue.check(whole.head); err != nil {
			whole.head.Free()
			x.note(&x.txInvalid, fmt.Errorf("tx %s: %w", x.describe(d), err))
			return
		}
	}
	t.pending = append(t.pending, whole.head)
}

// lend makes a packet of one segment of a descriptor that was checked.
func (x *XSK) lend(d XSKDesc) *mbuf.Buf {
	u := x.umem
	number := d.Addr >> u.shift
	f := &u.frames[number]
	start := number << u.shift
	b := x.tx.lender.LendAt(u.bytes[start:start+uint64(u.size):start+uint64(u.size)], f.buf.BaseIOVA(), uint32(number))
	b.SetReceived(int(d.Addr-start), int(d.Len))
	if d.Options&XSKMetadata != 0 {
		m := &u.meta[number]
		b.Flags = m.Flags & (mbuf.TxL4Mask | mbuf.TxVLAN | mbuf.TxIPv4 | mbuf.TxIPv6)
		b.L2Len, b.L3Len, b.L4Len = m.L2Len, m.L3Len, m.L4Len
		b.SegSize, b.VLAN = m.SegSize, m.VLAN
	}
	f.sent = d.Addr + 1
	x.tx.out++
	return b
}

// Reasons why a descriptor is refused.
var (
	errEmpty        = errors.New("it has no bytes")
	errOptions      = errors.New("it has options that nobody knows")
	errLateMeta     = errors.New("metadata belongs to a frame's first descriptor")
	errInFlight     = errors.New("the frame is in transmission already: wait for its completion")
	errPosted       = errors.New("the frame is on its way through the fill ring: wait until it was received into")
	errManySegments = fmt.Errorf("the frame has more than %d descriptors", maxXSKSegments)
)

// check says why a descriptor can't be sent, or is nil.
func (x *XSK) check(d XSKDesc) error {
	first := x.tx.partial.head
	switch {
	case d.Len == 0:
		return errEmpty
	case d.Options&^(XSKContinued|XSKMetadata) != 0:
		return errOptions
	case first != nil && d.Options&XSKMetadata != 0:
		return errLateMeta
	case first != nil && first.Segments() == maxXSKSegments:
		return errManySegments
	}
	if err := x.umem.outside(d.Addr, uint64(d.Len)); err != nil {
		return err
	}
	return x.umem.busy(d.Addr)
}

// busy says why the frame at an address is not the application's, or is nil.
func (u *UMEM) busy(addr uint64) error {
	switch f := &u.frames[addr>>u.shift]; {
	case f.sent != 0:
		return errInFlight
	case f.posted:
		return errPosted
	}
	return nil
}

// refuse drops the frame that a bad descriptor is a part of. Its parts come back
// as if they had been sent, and so does the descriptor's own frame, if it names
// one that is the application's: no frame is lost, and none comes back twice.
func (x *XSK) refuse(d XSKDesc, err error) {
	if p := &x.tx.partial; p.head != nil {
		p.head.Free()
		*p = xskPartial{}
	}
	x.note(&x.txInvalid, fmt.Errorf("tx %s: %w", x.describe(d), err))
	x.complete(d)
}

// complete puts a frame that is not sent on the completion ring, if it is the
// application's.
func (x *XSK) complete(d XSKDesc) {
	u := x.umem
	if d.Addr >= uint64(len(u.bytes)) || u.busy(d.Addr) != nil {
		return
	}
	u.completion.Reserve(1) // stage left room for it
	*u.completion.Slot(0) = d.Addr
	u.completion.Submit(1)
}

// describe names the descriptor that was taken last.
func (x *XSK) describe(d XSKDesc) string {
	return fmt.Sprintf("descriptor %d (%d bytes at %#x, options %#x)", x.tx.taken-1, d.Len, d.Addr, d.Options)
}

// settle puts frames that were freed on the completion ring and returns their
// number.
func (x *XSK) settle() (total int) {
	if x.Tx == nil {
		return 0
	}
	t, u := &x.tx, x.umem
	for n := burstSize; n == burstSize; total += n {
		n = t.lender.TakeBack(t.tokens[:])
		u.completion.Reserve(n) // stage left room for them
		for i, number := range t.tokens[:n] {
			f := &u.frames[number]
			*u.completion.Slot(i) = f.sent - 1
			f.sent = 0
		}
		u.completion.Submit(n)
		t.out -= n
	}
	return total
}

// abandon frees what will not be sent when no more descriptors are taken: a frame
// whose end was not seen and, on a stopped port, everything.
func (t *xskTx) abandon() {
	if t.partial.head != nil {
		t.partial.head.Free()
		t.partial = xskPartial{}
		t.skipping = true
	}
	if t.queue == nil {
		for _, b := range t.pending {
			b.Free()
		}
		t.pending = t.pending[:0]
	}
}
