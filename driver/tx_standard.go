package driver

import (
	"vionet/mbuf"
	"vionet/ring"
	"vionet/virtio"
)

// maxSegments is the number of descriptors that one packet may take.
const maxSegments = 256

// txStandard sends packets with whatever offloads the port was started with.
// A packet that asks for another one, or for the impossible, is dropped.
func txStandard(q *TxQueue, pkts []*mbuf.Buf) int {
	if !q.makeRoom(len(pkts)) {
		return 0
	}
	sent, bytes := 0, uint64(0)
	for _, b := range pkts {
		if q.ring.Free() == 0 {
			break
		}
		var hdr virtio.NetHeader
		if b.Flags&txRequests != 0 {
			// Only with room for the worst case: a packet that is not taken
			// must go back as it was, without a tag put in.
			if q.ring.Free() < min(b.Segments()+1, len(q.segments)) {
				break
			}
			if !q.offload(b, &hdr) {
				q.drop(b)
				sent++
				continue
			}
		}
		if !q.send(b, &hdr, &bytes) {
			break
		}
		sent++
	}
	q.finish(sent, bytes)
	return sent
}

// send puts one packet into the ring, its header in the headroom or, where
// that is too short, in a descriptor of its own. It reports false, with
// nothing changed, when the ring has no room now; a packet that never fits
// is dropped.
func (q *TxQueue) send(b *mbuf.Buf, hdr *virtio.NetHeader, bytes *uint64) bool {
	need := b.Segments()
	place := b.Head(q.hdrLen)
	if place == nil {
		need++
	}
	if need > len(q.segments) {
		q.drop(b)
		return true
	}
	if q.ring.Free() < need {
		return false
	}
	segs := q.segments[:0]
	if place == nil {
		slot := int(q.ring.NextHead()) * headerStride
		place = q.headers.Bytes[slot : slot+q.hdrLen]
		segs = append(segs, ring.Segment{Addr: q.headers.IOVA + uint64(slot), Len: uint32(q.hdrLen)})
		segs = append(segs, ring.Segment{Addr: b.IOVA(), Len: uint32(b.Len())})
	} else {
		segs = append(segs, ring.Segment{Addr: b.IOVA() - uint64(q.hdrLen), Len: uint32(b.Len() + q.hdrLen)})
	}
	putHeader(place, hdr)
	for s := b.Next(); s != nil; s = s.Next() {
		segs = append(segs, ring.Segment{Addr: s.IOVA(), Len: uint32(s.Len())})
	}
	q.bufs[q.ring.AddChain(segs)] = b
	*bytes += uint64(b.PacketLen())
	return true
}

// headerStride is the space in bytes for one header in TxQueue.headers.
const headerStride = 32

// putHeader writes the header, or nothing when the header asks for nothing
// and that is what stands there.
func putHeader(place []byte, hdr *virtio.NetHeader) {
	if *hdr == (virtio.NetHeader{}) {
		zeroHeader(place)
		return
	}
	clear(place[virtio.NetHeaderLegacySize:])
	hdr.Encode(place)
}
