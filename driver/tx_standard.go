package driver

import (
	"vionet/mbuf"
	"vionet/ring"
	"vionet/virtio"
)

// maxSegments is the number of descriptors that one packet may take.
const maxSegments = 256

// headerStride is the space in bytes for one header in TxQueue.headers.
const headerStride = 32

// txStandard sends packets with whatever offloads the port was started with.
// A packet that asks for another one, or for the impossible, is dropped, and so
// is one that the device can't reach.
func txStandard(q *TxQueue, pkts []*mbuf.Buf) int {
	if !q.makeRoom(len(pkts)) {
		return 0
	}
	room := q.ring.Free()
	taken, sent, bytes := 0, 0, uint64(0)
	for _, b := range pkts {
		need := q.descriptors(b)
		if need > room && need < maxSegments && need <= q.limit {
			break
		}
		taken++
		var hdr virtio.NetHeader
		if need > room || need >= maxSegments || b.Lent() || b.Flags&txRequests != 0 && q.check(b) != nil {
			q.drop(b)
			continue
		}
		if b.Flags&txRequests != 0 {
			q.offload(b, &hdr)
		}
		if q.staged.full(b.Segments() + 1) {
			q.flush()
		}
		q.stage(b, &hdr)
		room -= need
		sent++
		bytes += uint64(b.PacketLen())
	}
	q.flush()
	q.finish(sent, bytes)
	return taken
}

// descriptors is what b takes: one for each segment, and one more for the
// header when there is no room for it in front of the data.
func (q *TxQueue) descriptors(b *mbuf.Buf) int {
	inFront := q.hdrLen
	if b.Flags&mbuf.TxVLAN != 0 {
		inFront += vlanTagLen
	}
	pieces := b.Segments()
	if b.Headroom() < inFront {
		pieces++
	}
	if pieces == 1 {
		return 1
	}
	return q.ring.Cost(pieces)
}

// txStage holds packets on their way into the ring: as many as one call takes.
type txStage struct {
	pkts    []*mbuf.Buf
	lengths []uint16       // descriptors of each
	segs    []ring.Segment // of all
}

func newTxStage() txStage {
	return txStage{
		pkts:    make([]*mbuf.Buf, 0, burstSize),
		lengths: make([]uint16, 0, burstSize),
		segs:    make([]ring.Segment, 0, maxSegments),
	}
}

// full reports whether a packet of that many pieces has no place.
func (s *txStage) full(pieces int) bool {
	return len(s.pkts) == cap(s.pkts) || len(s.segs)+pieces > cap(s.segs)
}

// stage puts b's segments and its header where flush finds them.
func (q *TxQueue) stage(b *mbuf.Buf, hdr *virtio.NetHeader) {
	place := b.Head(q.hdrLen)
	if place == nil {
		q.stageApart(b, hdr)
		return
	}
	putHeader(place, hdr, q.headerTail)
	s := &q.staged
	s.segs = append(s.segs, ring.Segment{Addr: b.IOVA() - uint64(q.hdrLen), Len: uint32(b.Len() + q.hdrLen)})
	q.stageRest(b, 1)
}

// stageApart stages a packet whose header has a descriptor of its own, in the
// memory that belongs to the chain's head. The head must be the next one, so
// what waits in front goes first.
func (q *TxQueue) stageApart(b *mbuf.Buf, hdr *virtio.NetHeader) {
	q.flush()
	slot := int(q.ring.NextHead()) * headerStride
	putHeader(q.headers.Bytes[slot:slot+q.hdrLen], hdr, q.headerTail)
	s := &q.staged
	s.segs = append(s.segs,
		ring.Segment{Addr: q.headers.IOVA + uint64(slot), Len: uint32(q.hdrLen)},
		ring.Segment{Addr: b.IOVA(), Len: uint32(b.Len())})
	q.stageRest(b, 2)
	q.flush()
}

// stageRest stages the segments behind the first, for which done descriptors
// are staged.
func (q *TxQueue) stageRest(b *mbuf.Buf, done int) {
	s := &q.staged
	for next := b.Next(); next != nil; next = next.Next() {
		s.segs = append(s.segs, ring.Segment{Addr: next.IOVA(), Len: uint32(next.Len())})
		done++
	}
	s.lengths = append(s.lengths, uint16(done))
	s.pkts = append(s.pkts, b)
}

// flush moves what is staged into the ring.
func (q *TxQueue) flush() {
	s := &q.staged
	if len(s.pkts) == 0 {
		return
	}
	if len(s.segs) == len(s.pkts) {
		q.ring.AddEach(s.segs, 0, q.heads[:])
	} else {
		q.ring.AddChains(s.segs, s.lengths, q.heads[:])
	}
	q.bufs.put(q.heads[:len(s.pkts)], s.pkts)
	s.pkts, s.lengths, s.segs = s.pkts[:0], s.lengths[:0], s.segs[:0]
}

// putHeader writes the header, or nothing when the header asks for nothing
// and that is what stands there as far as tail goes: see zeroHeader.
func putHeader(place []byte, hdr *virtio.NetHeader, tail uint32) {
	if *hdr == (virtio.NetHeader{}) {
		zeroHeader(place, tail)
		return
	}
	clear(place[virtio.NetHeaderLegacySize:])
	hdr.Encode(place)
}
