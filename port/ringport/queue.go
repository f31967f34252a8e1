package ringport

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"vionet/mbuf"
	"vionet/port"
)

// rxQueue receives from the lanes first, first+step, first+2*step, …
type rxQueue struct {
	wire        *wire
	first, step int
	turn        int // which of its lanes comes first
	sleeps      bool
	bell        *port.EventFD // nil: no start has asked for one yet

	packets, bytes atomic.Uint64
}

// lanes is the number of lanes that the queue takes from now.
func (q *rxQueue) lanes() int {
	return (int(q.wire.used.Load()) - q.first + q.step - 1) / q.step
}

func (q *rxQueue) lane(i int) *lane { return q.wire.lanes[q.first+i*q.step] }

func (q *rxQueue) Burst(bufs []*mbuf.Buf) int {
	n := 0
	for i, lanes := 0, q.lanes(); i < lanes && n < len(bufs); i++ {
		if q.turn++; q.turn >= lanes {
			q.turn = 0
		}
		n += q.lane(q.turn).take(bufs[n:])
	}
	if n == 0 {
		return 0
	}
	size := 0
	for _, b := range bufs[:n] {
		size += b.PacketLen()
	}
	q.packets.Add(uint64(n))
	q.bytes.Add(uint64(size))
	return n
}

// makeBell makes the queue's bell if it shall sleep.
func (q *rxQueue) makeBell() (err error) {
	if q.sleeps && q.bell == nil {
		q.bell, err = port.NewEventFD()
	}
	return err
}

func (q *rxQueue) closeBell() {
	if q.bell != nil {
		q.bell.Close()
	}
}

// Wait sleeps until the queue's bell is rung.
func (q *rxQueue) Wait(ctx context.Context) error {
	if !q.sleeps {
		return fmt.Errorf("wait for packets: %w: the port is configured without receive interrupts", port.ErrNotSupported)
	}
	defer q.Disarm()
	if q.Arm() == 0 {
		return nil
	}
	return q.bell.Wait(ctx)
}

// Alarm is for loops that sleep on several queues; see port.Alarmer.
func (q *rxQueue) Alarm() (port.Alarm, error) {
	if !q.sleeps {
		return nil, fmt.Errorf("alarm of a receive queue: %w: the port is configured without receive interrupts", port.ErrNotSupported)
	}
	return q, nil
}

// FD is the bell's.
func (q *rxQueue) FD() int { return q.bell.FD() }

// Arm hangs the queue's bell over its lanes and looks into them once more: a
// sender that came before saw no bell, and one that comes later rings it.
func (q *rxQueue) Arm() time.Duration {
	q.hang(q.bell)
	for i := range q.lanes() {
		if !q.lane(i).empty() {
			return 0
		}
	}
	return port.Forever
}

// Disarm takes the bell down.
func (q *rxQueue) Disarm() { q.hang(nil) }

// hang puts b, or nothing, over the lanes that the queue takes from, also
// over those that are still to come.
func (q *rxQueue) hang(b *port.EventFD) {
	for i := q.first; i < maxQueues; i += q.step {
		q.wire.bells[i].Store(b)
	}
}

// UseCache does nothing: the queue takes no buffers, they come with the
// packets.
func (q *rxQueue) UseCache(*mbuf.Cache) {}

// Err is nil: there is no device that could break a rule.
func (q *rxQueue) Err() error { return nil }

func (q *rxQueue) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load()}
}

func (q *rxQueue) reset() {
	q.packets.Store(0)
	q.bytes.Store(0)
}

// unsupported are the flags that ask a device for something.
const unsupported = mbuf.TxL4Mask | mbuf.TxVLAN

// txQueue feeds the lane of its number.
type txQueue struct {
	wire  *wire
	index int
	lane  *lane

	packets, bytes, errors atomic.Uint64
}

func (q *txQueue) Burst(bufs []*mbuf.Buf) int {
	l := q.lane
	start := l.tail.Load()
	n := min(l.room(start, len(bufs)), len(bufs))
	tail, size := start, 0
	for _, b := range bufs[:n] {
		if b.Flags&unsupported != 0 {
			b.Free()
			continue
		}
		b.Flags = 0 // what another port found out is not the receiver's
		size += b.PacketLen()
		l.slots[tail&l.mask] = b
		tail++
	}
	sent := tail - start
	if sent > 0 {
		l.tail.Store(tail) // publishes the burst; the packets are the receiver's now
		q.packets.Add(uint64(sent))
		q.bytes.Add(uint64(size))
		if b := q.wire.bells[q.index].Load(); b != nil {
			_ = b.Signal() // to a port that was closed meanwhile
		}
	}
	if failed := n - int(sent); failed > 0 {
		q.errors.Add(uint64(failed))
	}
	return n
}

// Reclaim does nothing: whoever receives the packets frees them.
func (q *txQueue) Reclaim() int { return 0 }

// UseCache does nothing: whoever receives the packets frees them.
func (q *txQueue) UseCache(*mbuf.Cache) {}

// Err is nil: there is no device that could break a rule.
func (q *txQueue) Err() error { return nil }

func (q *txQueue) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Errors: q.errors.Load()}
}

func (q *txQueue) reset() {
	q.packets.Store(0)
	q.bytes.Store(0)
	q.errors.Store(0)
}
