package driver

import "vionet/mbuf"

// rxStandard receives packets of one buffer each with Rx offloads.
func rxStandard(q *RxQueue, pkts []*mbuf.Buf) int {
	n, _ := q.receiveSingle(pkts)
	n, bytes := q.applyOffloads(pkts[:n])
	q.count(n, bytes)
	q.refill()
	return n
}
