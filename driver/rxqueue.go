package driver

import (
	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
)

// rxBurst is a receive path: it fills pkts from the front and returns how
// many packets there are.
type rxBurst func(q *RxQueue, pkts []*mbuf.Buf) int

// minFrame is the shortest frame that is passed on: an Ethernet header.
const minFrame = 14

// RxQueue is the receive side of one queue pair. See port.RxQueue for the
// contract.
type RxQueue struct {
	virtqueue
	burst rxBurst     // path, or rxStopped
	path  rxBurst     // what Start chose
	cache *mbuf.Cache // where buffers come from: own, or that of UseCache
	own   *mbuf.Cache

	portID   uint16
	hdrLen   int
	room     int // bytes posted of each buffer, header included
	refillAt int // refill when that many descriptors are free
	offloads port.RxOffloads
	uso      bool     // GUEST_USO was negotiated
	bufs     bufTable // what the device has
	partial  partialPacket

	completed [burstSize]ring.Completion
	fresh     [burstSize]*mbuf.Buf
	arrived   [burstSize]*mbuf.Buf // what receiveMerged peeked at
	counts    [burstSize]uint16
	places    [burstSize]ring.Segment
	heads     [burstSize]uint16
	packets   port.Counter
	bytes     port.Counter
	errors    port.Counter
	noBuf     port.Counter
}

// Burst receives packets; see port.RxQueue.
func (q *RxQueue) Burst(pkts []*mbuf.Buf) int { return q.burst(q, pkts) }

// UseCache makes the queue take its buffers through c.
func (q *RxQueue) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

// harvest takes up to n used buffers, at most burstSize.
func (q *RxQueue) harvest(n int) []ring.Completion {
	n = q.ring.Harvest(q.completed[:min(n, burstSize)])
	if n == 0 {
		q.noteBroken()
	}
	return q.completed[:n]
}

// take gives the buffer of a completion, or nil when the device claims to
// have written more than it was given; the queue is broken then.
func (q *RxQueue) take(c ring.Completion) *mbuf.Buf {
	b := q.bufs[c.Head]
	if c.Len > uint32(q.room) {
		q.ring.Fail("used length", "it is more than the buffer's", uint64(c.Len))
		q.noteBroken()
		q.recycle(b)
		return nil
	}
	return b
}

// recycle frees a packet that is not passed on.
func (q *RxQueue) recycle(b *mbuf.Buf) {
	q.fresh[0] = b
	q.cache.Put(q.fresh[:1])
}

// drop frees a bad packet and counts it.
func (q *RxQueue) drop(b *mbuf.Buf) {
	q.recycle(b)
	q.errors.Add(1)
}

// refill gives the device new buffers when enough were used up. It runs in
// every burst, whether packets came or not: a ring that ran dry has no other
// way back.
func (q *RxQueue) refill() {
	if q.ring.Free() >= q.refillAt && q.ring.Err() == nil && q.fill() > 0 {
		q.show()
	}
}

// fill adds buffers until the ring is full or the pool is empty. The device
// sees them after Publish.
func (q *RxQueue) fill() (added int) {
	for {
		want := min(q.ring.Free(), burstSize)
		if want == 0 {
			return added
		}
		got := q.cache.Get(q.fresh[:want])
		for i, b := range q.fresh[:got] {
			q.places[i] = ring.Segment{Addr: b.BaseIOVA() + uint64(mbuf.Headroom-q.hdrLen), Len: uint32(q.room)}
		}
		q.ring.AddEach(q.places[:got], ring.DescWrite, q.heads[:])
		q.bufs.put(q.heads[:got], q.fresh[:got])
		added += got
		if got < want {
			q.noBuf.Add(uint64(want - got))
			return added
		}
	}
}

func (q *RxQueue) count(packets int, bytes uint64) {
	if packets > 0 {
		q.packets.Add(uint64(packets))
		q.bytes.Add(bytes)
	}
}

// retire ends the queue's use by the port, and frees a packet that had not
// arrived whole. A cache of UseCache may be somebody else's by now.
func (q *RxQueue) retire() {
	q.end()
	q.burst = rxStopped
	q.cache = q.own
	if q.partial.head != nil {
		q.drop(q.partial.head)
		q.partial = partialPacket{}
	}
	q.cache.Flush()
}

// rxStopped is the path of a queue whose port was stopped: the ring is gone.
func rxStopped(*RxQueue, []*mbuf.Buf) int { return 0 }

// settle implements retired: packets that nobody received are dropped.
func (q *RxQueue) settle() (owned int) {
	for {
		used := q.harvest(burstSize)
		if len(used) == 0 {
			break
		}
		for _, c := range used {
			q.recycle(q.bufs[c.Head])
		}
	}
	q.cache.Flush()
	for range q.ring.Outstanding() {
		owned++
	}
	return owned
}

// release frees the buffers that the device held, once.
func (q *RxQueue) release() {
	if q.bufs == nil {
		return // a reset of the queue went wrong half-way
	}
	for head := range q.ring.Outstanding() {
		q.recycle(q.bufs[head])
	}
	q.cache.Flush()
	q.bufs = nil
	q.free()
}

// stats reads the counters; any goroutine may.
func (q *RxQueue) stats() port.QueueStats {
	return port.QueueStats{
		Packets: q.packets.Load(), Bytes: q.bytes.Load(),
		Errors: q.errors.Load(), NoBuf: q.noBuf.Load(),
	}
}
