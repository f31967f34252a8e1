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
		for at := 0; at < len(used); at++ {
			whole, size := q.acceptWhole(used, at, pkts[n:])
			n, bytes, at = n+whole, bytes+size, at+whole
			if at == len(used) {
				break
			}
			if b := q.merge(used[at]); b != nil {
				pkts[n] = b
				n, bytes = n+1, bytes+uint64(b.PacketLen())
			}
		}
	}
	return n, bytes
}

// peek finds the buffers of used and reads where each would have num_buffers. It
// is a loop of its own so that the processor waits for the cache lines of many
// headers, which the device has just written, at once.
func (q *RxQueue) peek(used []ring.Completion) {
	arrived, counts := q.arrived[:len(used)], q.counts[:len(used)]
	q.bufs.find(used, arrived)
	offset := mbuf.Headroom - q.hdrLen + numBuffersOffset
	for i, b := range arrived {
		counts[i] = numBuffers(b.Raw(), offset)
	}
}

// numBuffers reads num_buffers at an offset of a buffer; in one so short that it
// is not there, it is 0.
func numBuffers(raw []byte, offset int) uint16 {
	if offset < 0 || offset > len(raw) {
		return 0
	}
	field := raw[offset:]
	if len(field) < 2 {
		return 0
	}
	return binary.LittleEndian.Uint16(field)
}

// acceptWhole makes packets of used buffers, from number first on and up to one
// that is not a good packet all by itself, as nearly every one is; merge looks
// closer at the others. It returns how many and their bytes.
func (q *RxQueue) acceptWhole(used []ring.Completion, first int, pkts []*mbuf.Buf) (n int, bytes uint64) {
	if q.partial.missing > 0 {
		return 0, 0
	}
	arrived, counts := q.arrived[first:len(used)], q.counts[first:len(used)]
	used = used[first:][:len(arrived)]
	counts, pkts = counts[:len(arrived)], pkts[:len(arrived)]
	hdrLen, portID := uint32(q.hdrLen), q.portID
	least := hdrLen + minFrame
	spread := uint32(q.room) - least // Configure checked the room
	for i, b := range arrived {
		size := used[i].Len
		if counts[i] != 1 || size-least > spread {
			return i, bytes
		}
		b.SetReceived(mbuf.Headroom, int(size-hdrLen))
		b.Port = portID
		bytes += uint64(size - hdrLen)
		pkts[i] = b
	}
	return len(arrived), bytes
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
