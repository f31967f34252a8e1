package capture

import (
	"context"
	"fmt"
	"sync/atomic"

	"vionet/mbuf"
	"vionet/port"
)

// Tap is where a Recorder can be put in front of queues, also while packets pass.
// One without a recorder costs a queue one call and one load of a pointer for each
// burst. The zero Tap is usable.
type Tap struct{ recorder atomic.Pointer[Recorder] }

// Set puts a recorder in the place of the one before; nil: none. Any goroutine may
// call it. The one before may get the bursts of this moment still, until it is
// stopped.
func (t *Tap) Set(r *Recorder) { t.recorder.Store(r) }

// RxQueue gives q with the tap on it: whoever drives q drives that one instead. from
// names the queue; its direction is Rx, whatever stands there.
func (t *Tap) RxQueue(q port.RxQueue, from Source) port.RxQueue {
	from.Dir = Rx
	return &rxQueue{q, t, from}
}

// TxQueue gives q with the tap on it. Captured is what the queue takes, before any
// offload that was asked of it: checksums are not there yet, large packets are whole.
func (t *Tap) TxQueue(q port.TxQueue, from Source) port.TxQueue {
	from.Dir = Tx
	return &txQueue{q, t, from}
}

// looking gives the recorder that looks at the queue, to be left; nil: there is none.
func (t *Tap) looking(from Source) *Recorder {
	if r := t.recorder.Load(); r != nil && r.enter(from) {
		return r
	}
	return nil
}

type rxQueue struct {
	port.RxQueue
	tap  *Tap
	from Source
}

var _ port.Alarmer = (*rxQueue)(nil)

func (q *rxQueue) Burst(bufs []*mbuf.Buf) int {
	n := q.RxQueue.Burst(bufs)
	if n == 0 {
		return 0
	}
	if r := q.tap.looking(q.from); r != nil {
		q.record(r, bufs[:n])
	}
	return n
}

func (q *rxQueue) record(r *Recorder, pkts []*mbuf.Buf) {
	defer r.leave() // also when Match panics: Stop waits for it
	r.keep(r.copy(q.from, pkts), len(pkts))
}

func (q *rxQueue) Alarm() (port.Alarm, error) { return port.AlarmOf(q.RxQueue) }

type txQueue struct {
	port.TxQueue
	tap  *Tap
	from Source
}

var (
	_ port.Alarmer  = (*txQueue)(nil)
	_ port.TxWaiter = (*txQueue)(nil)
)

func (q *txQueue) Burst(bufs []*mbuf.Buf) int {
	if r := q.tap.looking(q.from); r != nil {
		return q.record(r, bufs)
	}
	return q.TxQueue.Burst(bufs)
}

// record copies the packets first: those that the queue has taken are its own.
func (q *txQueue) record(r *Recorder, bufs []*mbuf.Buf) int {
	defer r.leave() // also when the queue panics: Stop waits for it
	c := r.copy(q.from, bufs)
	n := q.TxQueue.Burst(bufs)
	r.keep(c, n)
	return n
}

func (q *txQueue) Alarm() (port.Alarm, error) { return port.AlarmOf(q.TxQueue) }

func (q *txQueue) Wait(ctx context.Context, free int) error {
	if w, ok := q.TxQueue.(port.TxWaiter); ok {
		return w.Wait(ctx, free)
	}
	return fmt.Errorf("wait for room: %w: the queue can only be polled", port.ErrNotSupported)
}
