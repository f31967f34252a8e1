package driver

import (
	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
)

// burstSize is the number of completions that are worked on at a time.
const burstSize = 64

// txBurst is a transmit path: it sends packets from the front of pkts and
// returns how many it took.
type txBurst func(q *TxQueue, pkts []*mbuf.Buf) int

// TxQueue is the transmit side of one queue pair. See port.TxQueue for the
// contract.
type TxQueue struct {
	virtqueue
	burst txBurst
	cache *mbuf.Cache // where sent packets go: own, or that of UseCache
	own   *mbuf.Cache

	hdrLen     int
	headerTail uint32    // see zeroHeader
	reclaimAt  int       // reclaim when fewer descriptors are free
	bufs       bufTable  // what the device has
	headers    mbuf.Zone // a header for each head, for packets without headroom
	staged     txStage
	ecn        bool                    // HOST_ECN was negotiated
	offloads   port.TxOffloads         // those that Start enabled
	plain      [burstSize]ring.Segment // of packets of one descriptor
	heads      [burstSize]uint16
	completed  [burstSize]ring.Completion
	sent       [burstSize]*mbuf.Buf
	packets    port.Counter
	bytes      port.Counter
	errors     port.Counter
}

// Burst sends packets; see port.TxQueue.
func (q *TxQueue) Burst(pkts []*mbuf.Buf) int { return q.burst(q, pkts) }

// Reclaim frees the packets that were sent and returns their number.
func (q *TxQueue) Reclaim() int {
	if q.ended.Load() {
		return 0
	}
	return q.reclaim()
}

func (q *TxQueue) reclaim() int {
	total := 0
	for {
		n := q.ring.Harvest(q.completed[:])
		if n == 0 {
			q.noteBroken()
			return total
		}
		q.bufs.find(q.completed[:n], q.sent[:])
		q.cache.Put(q.sent[:n])
		total += n
	}
}

// UseCache makes the queue free packets into c.
func (q *TxQueue) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

// makeRoom reclaims when descriptors run short for n packets. Reclaiming late
// and much at a time keeps the used ring's cache lines with the device. It
// reports whether the queue works.
func (q *TxQueue) makeRoom(n int) bool {
	if free := q.ring.Free(); free < n || free < q.reclaimAt {
		q.reclaim()
	}
	return q.ring.Err() == nil
}

// finish shows the device what was added in a burst and counts it.
func (q *TxQueue) finish(packets int, bytes uint64) {
	if packets == 0 {
		return
	}
	q.show()
	q.packets.Add(uint64(packets))
	q.bytes.Add(bytes)
}

// drop frees a packet that can't be sent and counts it as an error.
func (q *TxQueue) drop(b *mbuf.Buf) {
	q.sent[0] = b
	q.cache.Put(q.sent[:1])
	q.errors.Add(1)
}

// retire ends the queue's use by the port. A cache of UseCache may be somebody
// else's by now.
func (q *TxQueue) retire() {
	q.end()
	q.cache = q.own
	q.burst = txStopped
}

// settle implements retired.
func (q *TxQueue) settle() (owned int) {
	q.reclaim()
	q.cache.Flush()
	for head := range q.ring.Outstanding() {
		owned += q.bufs[head].Segments()
	}
	return owned
}

// release frees the packets that the device held, once.
func (q *TxQueue) release() {
	if q.bufs == nil {
		return // a reset of the queue went wrong half-way
	}
	q.cache = q.own
	for head := range q.ring.Outstanding() {
		q.sent[0] = q.bufs[head]
		q.cache.Put(q.sent[:1])
	}
	q.cache.Flush()
	q.bufs = nil
	q.free()
}

// txStopped is the path of a queue whose port was stopped: the ring is gone. A
// TxBuffer that is closed too late comes here.
func txStopped(*TxQueue, []*mbuf.Buf) int { return 0 }

// stats reads the counters; any goroutine may.
func (q *TxQueue) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Errors: q.errors.Load()}
}
