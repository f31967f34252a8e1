package netstack

import (
	"context"
	"errors"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
)

// How long packets wait for room: those of TCP connections, which have a hash and
// are sent by goroutines of their own, and all others, which the goroutine that
// receives may send.
const (
	patience      = 5 * time.Second
	shortPatience = 20 * time.Millisecond
)

// Sleeps of a sender: one whom nothing wakes, and one that looks at the link in
// between.
const (
	txNap   = 100 * time.Microsecond
	txSleep = 100 * time.Millisecond
)

// WritePackets sends packets, which stay the caller's, and returns how many. It
// waits for room in the ring, for a limited time; what is not sent then, or cannot
// be because the link is down, the port stopped or the endpoint closed, is told
// by the error.
func (e *Endpoint) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	pkts := list.AsSlice()
	for done := 0; done < len(pkts); {
		n := e.sameQueue(pkts[done:])
		sent, err := e.queueOf(pkts[done]).write(pkts[done : done+n])
		done += sent
		if err != nil {
			e.refused.Add(uint64(len(pkts) - done))
			return done, err
		}
	}
	return len(pkts), nil
}

// queueOf chooses the queue of a packet: one for all packets of a connection.
func (e *Endpoint) queueOf(pkt *stack.PacketBuffer) *txQueue {
	return e.tx[pkt.Hash%uint32(len(e.tx))]
}

// sameQueue is the number of packets at the front that go out on one queue.
func (e *Endpoint) sameQueue(pkts []*stack.PacketBuffer) int {
	for i, pkt := range pkts {
		if e.queueOf(pkt) != e.queueOf(pkts[0]) {
			return i
		}
	}
	return len(pkts)
}

// txQueue is one of the port's transmit queues. Who has its turn uses it.
type txQueue struct {
	turn     turn
	endpoint *Endpoint
	queue    port.TxQueue
	cache    *mbuf.Cache
	room     int             // bytes of a frame that a buffer holds
	run      context.Context // done when the port is about to stop
	desc     int             // descriptors; 0: not known
	offloads port.TxOffloads
	gso      offload.Segmenter
	chain    []*mbuf.Buf // scratch: the buffers of a packet
	out      []*mbuf.Buf // packets that the port has not taken

	limit    time.Duration // of the wait of the present sender
	deadline time.Time     // its end; zero: it has not waited
}

func newTxQueue(e *Endpoint) *txQueue {
	return &txQueue{turn: newTurn(), endpoint: e, cache: e.cfg.Pool.NewCache(0), room: room(e.cfg.Pool)}
}

func (q *txQueue) start(queue port.TxQueue, run context.Context, info port.Info) {
	q.queue, q.run, q.desc, q.offloads = queue, run, info.TxDesc, info.TxActive
	queue.UseCache(q.cache)
}

// gsoMaxSize is Endpoint.GSOMaxSize.
func (q *txQueue) gsoMaxSize() uint32 {
	payload := offload.MaxSegments * minMSS
	if q.desc > 0 {
		payload = min(payload, (q.desc/2-1)*q.room-maxHeaders)
	}
	return uint32(max(payload, minMSS) + gsoHeaders)
}

// mostBuffers is what the largest packet takes, cut or not.
func (q *txQueue) mostBuffers() int {
	most := buffers(int(q.gsoMaxSize())+maxHeaders, q.room)
	if q.offloads&port.TxTCPTSO == 0 {
		most += max(most, offload.MaxSegments)
	}
	return most
}

// write sends packets and returns how many.
func (q *txQueue) write(pkts []*stack.PacketBuffer) (sent int, err tcpip.Error) {
	limit := shortPatience
	if pkts[0].Hash != 0 {
		limit = patience
	}
	run := q.endpoint.run.Load()
	switch {
	case q.endpoint.closing.Load():
		return 0, &tcpip.ErrClosedForSend{}
	case run == nil:
		return 0, &tcpip.ErrNetworkUnreachable{}
	case !q.turn.takeWithin(limit, run.ctx.Done()):
		return 0, &tcpip.ErrNoBufferSpace{}
	}
	defer q.turn.give()
	q.limit, q.deadline = limit, time.Time{}
	for i, pkt := range pkts {
		err = q.stage(pkt)
		if err == nil && (len(q.out) >= burst || i == len(pkts)-1) {
			if err = q.flush(); err == nil {
				sent = i + 1
			}
		}
		if err != nil {
			q.cache.Put(q.out)
			q.out = q.out[:0]
			return sent, err
		}
	}
	return sent, nil
}

// stage makes packets for the port of pkt. When buffers are short, it sends what
// is staged and waits for some to come back.
func (q *txQueue) stage(pkt *stack.PacketBuffer) tcpip.Error {
	for !q.convert(pkt) {
		if err := q.flush(); err != nil {
			return err
		}
		if q.queue.Reclaim() > 0 {
			continue
		}
		if err := q.wait(0); err != nil {
			return err
		}
	}
	return nil
}

// flush hands what is staged to the port, and waits for room when there is none.
func (q *txQueue) flush() tcpip.Error {
	for {
		n := q.queue.Burst(q.out)
		if n == len(q.out) {
			q.out = q.out[:0]
			return nil
		}
		q.out = q.out[:copy(q.out, q.out[n:])]
		if err := q.wait(q.out[0].Segments() + 1); err != nil {
			return err
		}
	}
}

// wait waits until things may be better: until descriptors are free, at least
// need and half of all, or for a moment where need is 0 or nothing wakes a sender.
// It is an error when the sender has waited for long enough, or in vain.
func (q *txQueue) wait(need int) tcpip.Error {
	now := time.Now()
	if err := q.queue.Err(); err != nil {
		q.endpoint.setError(q.endpoint.failed(err))
		return &tcpip.ErrNetworkUnreachable{}
	}
	switch {
	case q.run.Err() != nil, !q.endpoint.port.Link().Up:
		return &tcpip.ErrNetworkUnreachable{}
	case q.deadline.IsZero():
		q.deadline = now.Add(q.limit)
		q.endpoint.waits.Add(1)
	case now.After(q.deadline):
		return &tcpip.ErrNoBufferSpace{}
	}
	if waiter, ok := q.queue.(port.TxWaiter); ok && need > 0 && q.desc > 0 {
		ctx, cancel := context.WithTimeout(q.run, min(txSleep, q.deadline.Sub(now)))
		defer cancel()
		// The next round tells what came of it.
		err := waiter.Wait(ctx, min(max(need, q.desc/2), q.desc))
		if !errors.Is(err, port.ErrNotSupported) {
			return nil
		}
	}
	nap(q.run, txNap)
	return nil
}
