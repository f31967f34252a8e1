package driver

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/ring"
)

// numBuffersOffset is the place of num_buffers in the header.
const numBuffersOffset = 10

// partialPacket is a packet of several buffers that has not arrived whole.
type partialPacket struct {
	head, last *mbuf.Buf
	missing    int // buffers that are still to come
}

// rxMergeable receives packets that may span buffers (virtio 1.2, section
// 5.1.6.4).
func rxMergeable(q *RxQueue, pkts []*mbuf.Buf) int {
	n, bytes := q.receiveMerged(pkts)
	q.count(n, bytes)
	q.refill()
	return n
}

// rxMergeableOffload is rxMergeable with Rx offloads.
func rxMergeableOffload(q *RxQueue, pkts []*mbuf.Buf) int {
	n, _ := q.receiveMerged(pkts)
	n, bytes := q.applyOffloads(pkts[:n])
	q.count(n, bytes)
	q.refill()
	return n
}

// receiveMerged turns used buffers into packets. Further buffers of a packet
// are taken beyond the burst; if they have not come yet, the packet waits in
// q.partial for a later one.
func (q *RxQueue) receiveMerged(pkts []*mbuf.Buf) (n int, bytes uint64) {
	for want := len(pkts); want > 0; want = q.partial.missing {
		used := q.harvest(want)
		if len(used) == 0 {
			break
		}
		q.peek(used)
		for i, c := range used {
			b := q.arrived[i]
			if q.isWhole(c, q.counts[i]) {
				b.SetReceived(mbuf.Headroom, int(c.Len)-q.hdrLen)
				b.Port = q.portID
			} else if b = q.merge(c); b == nil {
				continue
			}
			bytes += uint64(b.PacketLen())
			pkts[n] = b
			n++
		}
	}
	return n, bytes
}

// peek finds the buffers of used and reads where each would have num_buffers. It
// is a loop of its own so that the processor waits for the cache lines of many
// headers, which the device has just written, at once.
func (q *RxQueue) peek(used []ring.Completion) {
	offset := mbuf.Headroom - q.hdrLen + numBuffersOffset
	for i, c := range used {
		b := q.bufs[c.Head]
		q.arrived[i] = b
		q.counts[i] = binary.LittleEndian.Uint16(b.Raw()[offset:])
	}
}

// isWhole reports whether a used buffer is a good packet all by itself, as
// nearly every one is; merge looks closer at the others.
func (q *RxQueue) isWhole(c ring.Completion, buffers uint16) bool {
	return buffers == 1 && q.partial.missing == 0 && c.Len >= uint32(q.hdrLen)+minFrame && c.Len <= uint32(q.room)
}

// merge works on one used buffer, and returns the packet that it completes.
func (q *RxQueue) merge(c ring.Completion) *mbuf.Buf {
	b := q.take(c)
	if b == nil {
		return nil
	}
	if q.partial.missing > 0 {
		return q.continuePacket(b, c)
	}
	hdrLen := uint32(q.hdrLen)
	if c.Len < hdrLen+minFrame {
		q.drop(b)
		return nil
	}
	b.SetReceived(mbuf.Headroom, int(c.Len-hdrLen))
	b.Port = q.portID
	if buffers := binary.LittleEndian.Uint16(b.Head(q.hdrLen)[numBuffersOffset:]); buffers != 1 {
		q.startPacket(b, int(buffers))
		return nil
	}
	return b
}

// startPacket begins a packet of several buffers with its first one.
func (q *RxQueue) startPacket(b *mbuf.Buf, buffers int) {
	switch {
	case buffers == 0:
		q.drop(b)
	case buffers > q.limit:
		q.ring.Fail("num_buffers", "it is more than the buffers that the device was given", uint64(buffers))
		q.noteBroken()
		q.drop(b)
	default:
		q.partial = partialPacket{head: b, last: b, missing: buffers - 1}
	}
}

// continuePacket hangs a further buffer, which starts without a header,
// behind the packet that is waiting. It returns the packet once it is whole.
func (q *RxQueue) continuePacket(b *mbuf.Buf, c ring.Completion) *mbuf.Buf {
	p := &q.partial
	b.SetReceived(mbuf.Headroom-q.hdrLen, int(c.Len))
	p.head.Link(p.last, b)
	p.last = b
	if p.missing--; p.missing > 0 {
		return nil
	}
	whole := p.head
	*p = partialPacket{}
	return whole
}
