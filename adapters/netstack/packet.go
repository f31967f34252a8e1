package netstack

import (
	"errors"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
)

// This file makes packets for the port of packets of the stack.

// convert stages pkt for the port: as it is, with requests for what the port does,
// or in segments where that is left. It is false when buffers are short.
func (q *txQueue) convert(pkt *stack.PacketBuffer) bool {
	b := q.copy(pkt)
	if b == nil {
		return false
	}
	if !request(b, pkt) || q.permits(b.Flags) {
		q.out = append(q.out, b)
		return true
	}
	segments, err := q.cut(b)
	q.out = append(q.out, segments...)
	q.cache.Put(q.chain[:1])
	// One that can never be cut is none that the stack makes.
	return !errors.Is(err, offload.ErrNoBufs)
}

// copy copies a whole packet into buffers, or returns nil when they are short.
func (q *txQueue) copy(pkt *stack.PacketBuffer) *mbuf.Buf {
	rest := pkt.Size()
	q.chain = append(q.chain[:0], make([]*mbuf.Buf, buffers(rest, q.room))...)
	if got := q.cache.Get(q.chain); got < len(q.chain) {
		q.cache.Put(q.chain[:got])
		return nil
	}
	from := newReader(pkt)
	head := q.chain[0]
	for i, b := range q.chain {
		n := min(rest, q.room)
		from.read(b.Renew(n))
		rest -= n
		if i > 0 {
			head.Link(q.chain[i-1], b)
		}
	}
	return head
}

// reader reads the bytes of a packet one after the other.
type reader struct {
	view *buffer.View
	at   int // in view
}

func newReader(pkt *stack.PacketBuffer) reader {
	views, offset := pkt.AsViewList()
	return reader{views.Front(), offset}
}

// read fills dst, for which there are enough bytes.
func (r *reader) read(dst []byte) {
	for len(dst) > 0 {
		if r.at >= r.view.Size() {
			r.at -= r.view.Size()
			r.view = r.view.Next()
			continue
		}
		n := copy(dst, r.view.AsSlice()[r.at:])
		dst = dst[n:]
		r.at += n
	}
}

// request asks, in b, for what the stack left undone in pkt: the TCP checksum, and
// to be cut. It reports whether that is anything.
func request(b *mbuf.Buf, pkt *stack.PacketBuffer) bool {
	gso := &pkt.GSOOptions
	switch {
	case !gso.NeedsCsum:
		return false
	case gso.Type == stack.GSOTCPv4:
		b.Flags = mbuf.TxTCPChecksum | mbuf.TxIPv4
	case gso.Type == stack.GSOTCPv6:
		b.Flags = mbuf.TxTCPChecksum | mbuf.TxIPv6
	default:
		return false
	}
	b.L2Len = uint16(len(pkt.LinkHeader().Slice()))
	b.L3Len = uint16(len(pkt.NetworkHeader().Slice()))
	b.L4Len = uint16(len(pkt.TransportHeader().Slice()))
	b.SegSize = max(gso.MSS, 1)
	if pkt.Data().Size() > int(b.SegSize) {
		b.Flags |= mbuf.TxTSO
	}
	return true
}

// permits reports whether the port does what flags ask for.
func (q *txQueue) permits(flags mbuf.Flags) bool {
	want := port.TxTCPCksum
	if flags&mbuf.TxTSO != 0 {
		want |= port.TxTCPTSO
	}
	return q.offloads&want == want
}

// cut gives the segments that b stands for, one at least, in buffers of their own.
// Their checksums are left to a port that fills them in.
func (q *txQueue) cut(b *mbuf.Buf) ([]*mbuf.Buf, error) {
	leave := mbuf.Flags(0)
	if q.offloads&port.TxTCPCksum != 0 {
		leave = mbuf.TxTCPChecksum
	}
	b.Flags = b.Flags&^mbuf.TxTCPChecksum | mbuf.TxTSO
	return q.gso.Segment(b, q.cache, leave)
}
