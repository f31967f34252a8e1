package driver

import (
	"vionet/mbuf"
	"vionet/ring"
)

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
	for used := q.harvest(len(pkts)); len(used) > 0; {
		good, size := q.acceptSingle(used, pkts[n:])
		n, bytes = n+good, bytes+size
		if used = used[good:]; len(used) > 0 {
			q.reject(used[0])
			used = used[1:]
		}
	}
	return n, bytes
}

// acceptSingle makes packets of used buffers, up to the first whose length makes
// no sense, and returns how many and their bytes.
func (q *RxQueue) acceptSingle(used []ring.Completion, pkts []*mbuf.Buf) (n int, bytes uint64) {
	bufs := q.bufs
	if len(bufs) == 0 {
		return 0, 0 // see bufTable.put
	}
	mask, pkts := len(bufs)-1, pkts[:len(used)]
	hdrLen, portID := uint32(q.hdrLen), q.portID
	least := hdrLen + minFrame
	spread := uint32(q.room) - least // Configure checked the room
	for i, c := range used {
		if c.Len-least > spread {
			return i, bytes
		}
		b := bufs[int(c.Head)&mask]
		b.SetReceived(mbuf.Headroom, int(c.Len-hdrLen))
		b.Port = portID
		bytes += uint64(c.Len - hdrLen)
		pkts[i] = b
	}
	return len(used), bytes
}

// reject drops a used buffer whose length makes no sense.
func (q *RxQueue) reject(c ring.Completion) {
	if b := q.take(c); b != nil {
		q.drop(b)
	}
}
