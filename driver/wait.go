package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vionet/port"
)

// starvedPause is how long a queue waits that has no buffers to receive into:
// nothing will wake it.
const starvedPause = 10 * time.Millisecond

// Wait sleeps until packets may be there; see port.RxQueue. The device is asked
// for an interrupt and the ring looked at once more before the sleep, so that
// no packet is slept over (virtio 1.2, section 2.7.7.1).
func (q *RxQueue) Wait(ctx context.Context) error {
	if q.ended.Load() {
		return errEnded
	}
	if q.event == nil {
		return fmt.Errorf("wait for packets: %w: configure the port with RxInterrupts", port.ErrNotSupported)
	}
	for {
		if err := q.Err(); err != nil {
			return err
		}
		q.topUp()
		if !q.ring.Arm() {
			q.ring.Disarm()
			return nil
		}
		if err := q.awake(q.sleep(ctx)); err != nil {
			return err
		}
	}
}

// awake takes the wish for interrupts back after a sleep that ended with err.
// The ring of a port that was stopped is gone.
func (v *virtqueue) awake(err error) error {
	if !errors.Is(err, port.ErrClosed) {
		v.ring.Disarm()
	}
	return err
}

var _ port.TxWaiter = (*TxQueue)(nil)

// Wait sleeps until at least free descriptors are free; see port.TxWaiter. With
// EVENT_IDX the device is told at which of them to interrupt (virtio 1.2,
// sections 2.7.7 and 2.8.10); without it each completion that comes while the
// sender sleeps wakes it.
func (q *TxQueue) Wait(ctx context.Context, free int) error {
	switch {
	case q.ended.Load():
		return errEnded
	case q.event == nil:
		return fmt.Errorf("wait for room: %w: configure the port with TxInterrupts", port.ErrNotSupported)
	case free < 1 || free > q.limit:
		return fmt.Errorf("wait for %d free descriptors: %w: must be 1 to %d", free, port.ErrInvalid, q.limit)
	}
	for {
		q.Reclaim()
		if err := q.Err(); err != nil {
			return err
		}
		missing := free - q.ring.Free()
		if missing <= 0 {
			return nil
		}
		var err error
		if q.ring.ArmAfter(missing) {
			err = q.event.Wait(ctx)
		}
		if err = q.awake(err); err != nil {
			return err
		}
	}
}

// topUp gives the device every buffer that it can have.
func (q *RxQueue) topUp() {
	at := q.refillAt
	q.refillAt = 1
	q.refill()
	q.refillAt = at
}

// starved reports whether the device has no buffer to receive into.
func (q *RxQueue) starved() bool { return q.ring.Free() == q.limit }

func (q *RxQueue) sleep(ctx context.Context) error {
	if !q.starved() {
		return q.event.Wait(ctx)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(starvedPause):
		return nil
	}
}
