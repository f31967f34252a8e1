package netstack

import (
	"context"
	"errors"
	"runtime"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"vionet/mbuf"
	"vionet/port"
)

// burst is the number of packets that are received, and sent, at a time.
const burst = 32

// rxNap is the sleep of a goroutine whose port gives no alarm.
const rxNap = time.Millisecond

// rxQueue is one of the port's receive queues. Who has its turn uses it.
type rxQueue struct {
	turn     turn
	endpoint *Endpoint
	queue    port.RxQueue
	cache    *mbuf.Cache
	bufs     [burst]*mbuf.Buf
	pkts     [burst]arrival
	idle     time.Time // since when nothing has come; zero: something has
}

// arrival is a packet on its way to the stack.
type arrival struct {
	pkt     *stack.PacketBuffer
	vouched bool
}

func newRxQueue(e *Endpoint) *rxQueue {
	return &rxQueue{turn: newTurn(), endpoint: e, cache: e.cfg.Pool.NewCache(0)}
}

func (q *rxQueue) start(queue port.RxQueue) {
	q.queue = queue
	queue.UseCache(q.cache)
}

// receive delivers packets to d until ctx is done, or the queue has stopped for
// good. Sleeping in the runtime's poller, not in a system call, leaves the
// processor to the goroutines that the packets woke.
func (q *rxQueue) receive(ctx context.Context, d stack.NetworkDispatcher) {
	if !q.turn.takeUntil(ctx) {
		return
	}
	defer q.turn.give()
	for ctx.Err() == nil {
		if n := q.queue.Burst(q.bufs[:]); n > 0 {
			q.deliver(q.convert(q.bufs[:n]), d)
			q.idle = time.Time{}
			continue
		}
		if q.spins() {
			runtime.Gosched()
			continue
		}
		err := q.queue.Wait(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, port.ErrNotSupported):
			nap(ctx, rxNap)
		default:
			q.endpoint.setError(q.endpoint.failed(err))
			return
		}
	}
}

// spins reports whether it is too early for a sleep.
func (q *rxQueue) spins() bool {
	if q.endpoint.cfg.Spin == 0 {
		return false
	}
	if q.idle.IsZero() {
		q.idle = time.Now()
	}
	return time.Since(q.idle) < q.endpoint.cfg.Spin
}

// convert copies frames into packets of the stack, but for those that are not for
// this station, and frees them.
func (q *rxQueue) convert(bufs []*mbuf.Buf) []arrival {
	n, station := 0, q.endpoint.LinkAddress()
	for _, b := range bufs {
		pkt := newPacket(b)
		eth, ok := pkt.LinkHeader().Consume(header.EthernetMinimumSize)
		if !ok || !address(pkt, eth, station) {
			q.endpoint.strays.Add(1)
			pkt.DecRef()
			continue
		}
		q.pkts[n] = arrival{pkt, vouched(b.Flags, b.Bytes())}
		n++
	}
	q.cache.Put(bufs)
	return q.pkts[:n]
}

// newPacket makes a packet of the frame in b and the buffers behind it.
func newPacket(b *mbuf.Buf) *stack.PacketBuffer {
	view := buffer.NewView(b.PacketLen())
	for seg := b; seg != nil; seg = seg.Next() {
		view.Write(seg.Bytes()) // there is room, so that it does not fail
	}
	return stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(view)})
}

// address fills in what the Ethernet header says about pkt. It is false for a
// frame that is for another station.
func address(pkt *stack.PacketBuffer, eth header.Ethernet, station tcpip.LinkAddress) bool {
	pkt.NetworkProtocolNumber = eth.Type()
	switch to := eth.DestinationAddress(); {
	case to == station:
		pkt.PktType = tcpip.PacketHost
	case to == header.EthernetBroadcastAddress:
		pkt.PktType = tcpip.PacketBroadcast
	case header.IsMulticastEthernetAddress(to):
		pkt.PktType = tcpip.PacketMulticast
	default:
		return false
	}
	return true
}

// deliver hands packets to the stack, in order.
func (q *rxQueue) deliver(pkts []arrival, d stack.NetworkDispatcher) {
	trust := &q.endpoint.trust
	for len(pkts) > 0 {
		n := alike(pkts)
		trust.begin(pkts[0].vouched)
		for _, a := range pkts[:n] {
			d.DeliverNetworkPacket(a.pkt.NetworkProtocolNumber, a.pkt)
			a.pkt.DecRef()
		}
		trust.end(pkts[0].vouched)
		clear(pkts[:n])
		pkts = pkts[n:]
	}
}

// alike is the number of packets at the front that are all vouched for, or none.
func alike(pkts []arrival) int {
	for i, a := range pkts {
		if a.vouched != pkts[0].vouched {
			return i
		}
	}
	return len(pkts)
}
