package driver

import (
	"context"
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
	if q.event == nil {
		return fmt.Errorf("wait for packets: %w: configure the port with RxInterrupts", port.ErrNotSupported)
	}
	for {
		if err := q.Err(); err != nil {
			return err
		}
		q.topUp()
		armed := q.ring.Arm()
		if !armed {
			q.ring.Disarm()
			return nil
		}
		err := q.sleep(ctx)
		q.ring.Disarm()
		if err != nil {
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

func (q *RxQueue) sleep(ctx context.Context) error {
	if q.ring.Free() < q.limit {
		return q.event.Wait(ctx)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(starvedPause):
		return nil
	}
}
