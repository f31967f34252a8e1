package driver

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/virtio"
)

// txRequests are the flags of packets that ask for an offload.
const txRequests = mbuf.TxL4Mask | mbuf.TxVLAN

// txSimple sends packets of one segment that ask for nothing: one descriptor
// each, over a header of zeros in the headroom and the data behind it. Other
// packets take the long way through sendOdd.
func txSimple(q *TxQueue, pkts []*mbuf.Buf) int {
	if !q.makeRoom(len(pkts)) {
		return 0
	}
	hdrLen := q.hdrLen
	sent, bytes := 0, uint64(0)
	for _, b := range pkts {
		if q.ring.Free() == 0 {
			break
		}
		head := b.Head(hdrLen)
		if head == nil || b.Segments() != 1 || b.Flags&txRequests != 0 {
			if !q.sendOdd(b, &bytes) {
				break
			}
			sent++
			continue
		}
		zeroHeader(head)
		id := q.ring.Add(b.IOVA()-uint64(hdrLen), uint32(b.Len()+hdrLen), 0)
		q.bufs[id] = b
		bytes += uint64(b.Len())
		sent++
	}
	q.finish(sent, bytes)
	return sent
}

// sendOdd sends a packet that the simple path is not made for. It reports
// false when the ring has no room for it now.
func (q *TxQueue) sendOdd(b *mbuf.Buf, bytes *uint64) bool {
	if b.Flags&txRequests != 0 {
		q.drop(b)
		return true
	}
	return q.send(b, &virtio.NetHeader{}, bytes)
}

// zeroHeader makes h a header that asks for nothing. It mostly is one already,
// and then is only read: a write would take the cache line from the device.
func zeroHeader(h []byte) {
	if len(h) == virtio.NetHeaderSize {
		if binary.LittleEndian.Uint64(h)|uint64(binary.LittleEndian.Uint32(h[8:])) != 0 {
			clear(h)
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
