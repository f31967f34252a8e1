package driver

import "vionet/mbuf"

// rxSimple receives packets of one buffer each and looks at nothing of them:
// neither header nor data.
func rxSimple(q *RxQueue, pkts []*mbuf.Buf) int {
	n, bytes := q.receiveSingle(pkts)
	q.count(n, bytes)
	q.refill()
	return n
}

// receiveSingle turns used buffers into packets of one buffer each.
func (q *RxQueue) receiveSingle(pkts []*mbuf.Buf) (n int, bytes uint64) {
	hdrLen := uint32(q.hdrLen)
	for _, c := range q.harvest(len(pkts)) {
		b := q.take(c)
		if b == nil {
			continue
		}
		if c.Len < hdrLen+minFrame {
			q.drop(b)
			continue
		}
		b.SetReceived(mbuf.Headroom, int(c.Len-hdrLen))
		b.Port = q.portID
		bytes += uint64(c.Len - hdrLen)
		pkts[n] = b
		n++
	}
	return n, bytes
}
