package driver

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/ring"
	"vionet/virtio"
)

// txRequests are the flags of packets that ask for an offload.
const txRequests = mbuf.TxL4Mask | mbuf.TxVLAN

// txSimple sends packets of one segment that ask for nothing: one descriptor
// each, over a header of zeros in the headroom and the data behind it. From the
// first packet on that is not like that, the standard path serves the burst.
func txSimple(q *TxQueue, pkts []*mbuf.Buf) int {
	if !q.makeRoom(len(pkts)) {
		return 0
	}
	sent, bytes := 0, uint64(0)
	for {
		n, size := q.sendPlain(pkts[sent:min(sent+burstSize, len(pkts))])
		sent, bytes = sent+n, bytes+size
		if n < burstSize {
			break
		}
	}
	q.finish(sent, bytes)
	if sent < len(pkts) && q.ring.Free() > 0 {
		return sent + txStandard(q, pkts[sent:])
	}
	return sent
}

// sendPlain puts plain packets from the front of pkts into the ring, as far as
// there is room, and returns how many and their bytes.
func (q *TxQueue) sendPlain(pkts []*mbuf.Buf) (n int, bytes uint64) {
	pkts = pkts[:min(len(pkts), q.ring.Free(), burstSize)]
	hdrLen, tail, segs := q.hdrLen, q.headerTail, q.plain[:len(pkts)]
	for i, b := range pkts {
		head := b.Head(hdrLen)
		if head == nil || b.Segments() != 1 || b.Flags&txRequests != 0 || b.BaseIOVA() == mbuf.NoIOVA {
			pkts = pkts[:i]
			break
		}
		zeroHeader(head, tail)
		segs[i] = ring.Segment{Addr: b.IOVA() - uint64(hdrLen), Len: uint32(b.Len() + hdrLen)}
		bytes += uint64(b.Len())
	}
	q.ring.AddEach(segs[:len(pkts)], 0, q.heads[:])
	q.bufs.put(q.heads[:len(pkts)], pkts)
	return len(pkts), bytes
}

// What counts of the last four bytes of a header, csum_offset and num_buffers.
const (
	wholeTail         = 0xffffffff
	tailButNumBuffers = 0x0000ffff
)

// zeroHeader makes h a header that asks for nothing. It mostly is one already,
// and then is only read: a write would take the cache line from the device. Of its
// last four bytes only those in tail need be zero.
func zeroHeader(h []byte, tail uint32) {
	if len(h) == virtio.NetHeaderSize {
		if binary.LittleEndian.Uint64(h)|uint64(binary.LittleEndian.Uint32(h[8:])&tail) != 0 {
			binary.LittleEndian.PutUint64(h, 0)
			binary.LittleEndian.PutUint32(h[8:], 0)
		}
		return
	}
	for _, v := range h {
		if v != 0 {
			clear(h)
			return
		}
	}
}
