package driver

import (
	"fmt"

	"vionet/mbuf"
)

// xskRx is the receiving half of an XSK.
type xskRx struct {
	ring     *ProducerRing[XSKDesc]
	queue    *RxQueue // nil: the port is stopped
	zeroCopy bool
	cache    *mbuf.Cache // of the UMEM's pool

	arrived []*mbuf.Buf // packets in frames that the rx ring had no room for yet
	burst   [burstSize]*mbuf.Buf
	filled  [burstSize]uint64 // entries of the fill ring
}

// receive moves frames of the fill ring to the receive queue, and up to a burst
// of packets to the rx ring.
func (x *XSK) receive() (moved int) {
	moved = x.refill()
	r := &x.rx
	if len(r.arrived) == 0 && r.queue != nil && r.ring.Free() > 0 {
		x.collect(r.burst[:min(burstSize, r.ring.Free())])
	}
	return moved + x.deliver()
}

// refill gives the UMEM's pool the frames of the fill ring.
func (x *XSK) refill() int {
	r, u := &x.rx, x.umem
	n := u.fill.take(r.filled[:])
	if n == 0 {
		return 0
	}
	good := r.burst[:0]
	for _, addr := range r.filled[:n] {
		err := u.outside(addr, 0)
		if err == nil {
			err = u.busy(addr)
		}
		if err != nil {
			x.note(&x.rxInvalid, fmt.Errorf("fill entry %#x: %w", addr, err))
			continue
		}
		number := addr >> u.shift
		u.where[number] = posted
		good = append(good, &u.rxBufs[number])
	}
	r.cache.Put(good)
	if r.zeroCopy {
		r.cache.Flush() // the receive queue takes them from the pool
	}
	return n
}

// collect receives packets, in frames.
func (x *XSK) collect(pkts []*mbuf.Buf) {
	r := &x.rx
	n := r.queue.Burst(pkts)
	for _, b := range pkts[:n] {
		if b.Pool() != x.umem.pool {
			b = x.copied(b)
		}
		if b == nil || b.Segments() > r.ring.Size() {
			x.rxDropped.Add(1)
			if b != nil {
				b.Free()
			}
			continue
		}
		r.arrived = append(r.arrived, b)
	}
}

// copied gives a copy of a packet in frames, or nil when there are not enough.
func (x *XSK) copied(b *mbuf.Buf) *mbuf.Buf {
	c := x.rx.cache.Copy(b)
	x.rx.queue.recycle(b)
	return c
}

// deliver puts packets on the rx ring, as far as there is room.
func (x *XSK) deliver() (moved int) {
	r, u := &x.rx, x.umem
	done := 0
	for _, b := range r.arrived {
		n := b.Segments()
		if r.ring.Reserve(n) < n {
			break
		}
		for i := 0; b != nil; i++ {
			*r.ring.Slot(i) = u.received(b)
			b = b.Unlink()
		}
		r.ring.Submit(n)
		moved += n
		done++
	}
	r.arrived = append(r.arrived[:0], r.arrived[done:]...)
	return moved
}

// received is the descriptor of a segment whose frame goes to the application.
func (u *UMEM) received(b *mbuf.Buf) XSKDesc {
	number := b.Token()
	u.where[number] = atHome
	d := XSKDesc{Addr: uint64(number)<<u.shift + uint64(b.Headroom()), Len: uint32(b.Len())}
	if b.Next() != nil {
		d.Options = XSKContinued
	}
	return d
}

// give gives all frames that nobody uses to the pool.
func (r *xskRx) give() {
	r.cache.Put(r.arrived)
	r.cache.Flush()
	r.arrived = r.arrived[:0]
}
