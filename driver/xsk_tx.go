package driver

import (
	"errors"
	"fmt"

	"vionet/mbuf"
)

// maxXSKSegments is the number of descriptors that a frame may have.
const maxXSKSegments = 18

// xskTx is the sending half of an XSK. Frames become packets, each in its own
// buffer, which go through the ordinary bursts and come back, freed, to the
// UMEM's pool of those that were sent, in whatever way the transmit queue, a stop
// or a reset frees packets.
type xskTx struct {
	ring  *ConsumerRing[XSKDesc]
	queue *TxQueue    // nil: the port is stopped
	sent  *mbuf.Cache // of the pool of sent frames
	out   int         // frames taken and not on the completion ring
	taken uint64
	room  int // completions that there was room for when descriptors were taken last

	pending  []*mbuf.Buf // packets that the queue had no room for yet
	partial  xskPartial
	skipping bool // the rest of a frame of which a part was refused

	descs [burstSize]XSKDesc
	back  [burstSize]*mbuf.Buf
	done  [burstSize]uint64
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
		// A queue that is busy reclaims for itself, late and many at a time: each
		// look at the used ring takes a cache line from the device. It is needed
		// where frames that were sent hold up those behind them.
		if moved == 0 || t.room < burstSize {
			t.queue.Reclaim()
		}
	}
	return moved + x.settle()
}

// stage takes descriptors from the tx ring: as many as there is room for among
// the completions, so that every frame has its place there when its time comes.
// They are copied first: what was checked can't be changed any more.
func (x *XSK) stage() int {
	t := &x.tx
	t.room = max(0, x.umem.completion.Free()-t.out)
	n := t.ring.take(t.descs[:min(burstSize-len(t.pending), t.room)])
	for at := 0; at < n; at++ {
		if at += x.stagePlain(t.descs[at:n]); at < n {
			x.take(t.descs[at], t.taken+uint64(at))
		}
	}
	t.taken += uint64(n)
	return n
}

// stagePlain makes packets of descriptors at the front of descs that are like
// most: good, whole frames, without metadata. It returns how many there are.
func (x *XSK) stagePlain(descs []XSKDesc) int {
	t, u := &x.tx, x.umem
	if t.skipping || t.partial.head != nil {
		return 0
	}
	where, bufs, pending := u.where, u.txBufs[:len(u.where)], t.pending
	shift, size := u.shift&63, uint64(u.size) // a shift that needs no check
	for i := range descs {
		d := &descs[i]
		number, off := d.Addr>>shift, d.Addr&(size-1)
		if d.Options != 0 || number >= uint64(len(where)) || where[number] != atHome || d.Len == 0 || uint64(d.Len) > size-off {
			break
		}
		where[number] = place(d.Addr + 1)
		b := &bufs[number]
		b.SetReceived(int(off), int(d.Len))
		pending = append(pending, b)
	}
	n := len(pending) - len(t.pending)
	t.pending, t.out = pending, t.out+n
	return n
}

// take does with a descriptor, number serial of all, whatever there is to do:
// makes a packet or a part of one, or refuses it.
func (x *XSK) take(d XSKDesc, serial uint64) {
	t := &x.tx
	more := d.Options&XSKContinued != 0
	if t.skipping {
		x.complete(d)
		t.skipping = more
		return
	}
	if err := x.check(d); err != nil {
		x.refuse(d, serial, err)
		t.skipping = more
		return
	}
	b := x.packet(d)
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
			x.noteTx(d, serial, err)
			return
		}
	}
	t.pending = append(t.pending, whole.head)
}

// packet makes a packet of one segment of a descriptor that was checked.
func (x *XSK) packet(d XSKDesc) *mbuf.Buf {
	u := x.umem
	number := d.Addr >> u.shift
	b := &u.txBufs[number]
	b.SetReceived(int(d.Addr&uint64(u.size-1)), int(d.Len))
	if d.Options&XSKMetadata != 0 {
		m := &u.meta[number]
		b.Flags = m.Flags & (mbuf.TxL4Mask | mbuf.TxVLAN | mbuf.TxIPv4 | mbuf.TxIPv6)
		b.L2Len, b.L3Len, b.L4Len = m.L2Len, m.L3Len, m.L4Len
		b.SegSize, b.VLAN = m.SegSize, m.VLAN
	}
	u.where[number] = place(d.Addr + 1)
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
	switch u.where[addr>>u.shift] {
	case atHome:
		return nil
	case posted:
		return errPosted
	default:
		return errInFlight
	}
}

// refuse drops the frame that a bad descriptor is a part of. Its parts come back
// as if they had been sent, and so does the descriptor's own frame, if it names
// one that is the application's: no frame is lost, and none comes back twice.
func (x *XSK) refuse(d XSKDesc, serial uint64, err error) {
	if p := &x.tx.partial; p.head != nil {
		p.head.Free()
		*p = xskPartial{}
	}
	x.noteTx(d, serial, err)
	x.complete(d)
}

// noteTx counts a descriptor that is refused, and says which and why.
func (x *XSK) noteTx(d XSKDesc, serial uint64, err error) {
	x.note(&x.txInvalid, fmt.Errorf("tx descriptor %d (%d bytes at %#x, options %#x): %w", serial, d.Len, d.Addr, d.Options, err))
}

// complete puts a frame that is not sent on the completion ring, if it is the
// application's.
func (x *XSK) complete(d XSKDesc) {
	u := x.umem
	if d.Addr >= uint64(len(u.bytes)) || u.busy(d.Addr) != nil {
		return
	}
	u.completion.put([]uint64{d.Addr}) // stage left room for it
}

// settle puts frames that were freed on the completion ring and returns their
// number.
func (x *XSK) settle() (total int) {
	t, u := &x.tx, x.umem
	for n := burstSize; n == burstSize && t.out > 0; total += n {
		n = t.sent.Get(t.back[:])
		for i, b := range t.back[:n] {
			where := &u.where[b.Token()]
			t.done[i] = uint64(*where - 1)
			*where = atHome
		}
		u.completion.put(t.done[:n]) // stage left room for them
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
