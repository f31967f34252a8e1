package driver

import (
	"context"
	"runtime"
	"time"
)

// Pauses of Run.
const (
	xskSpins = 64                    // idle polls before it sleeps
	xskNap   = 50 * time.Microsecond // while the device has frames, or may receive some
)

// Run polls until ctx is done or x is closed, for programs without a loop of
// their own; its goroutine owns the queue pair. When there is nothing to do it
// sleeps, and the rings say NeedWakeup: then Wakeup brings it back. While frames
// are with the device, or when there is an rx ring, it sleeps for moments only.
// The error is ctx's cause, or says that x was closed.
func (x *XSK) Run(ctx context.Context) error {
	defer x.setAsleep(true)
	x.setAsleep(false)
	timer := time.NewTimer(xskNap)
	defer timer.Stop()
	for idle := 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		moved, err := x.step()
		if err != nil {
			return err
		}
		if moved > 0 {
			idle = 0
			continue
		}
		if idle++; idle < xskSpins {
			runtime.Gosched() // the application may wait for this very processor
			continue
		}
		idle = 0
		// Say so, look once more, and sleep: whoever submits looks at the flag
		// afterwards, so that one of the two sees the other's write.
		x.setAsleep(true)
		if moved, _ = x.step(); moved == 0 {
			x.sleep(ctx, timer)
		}
		x.setAsleep(false)
	}
}

// step is Poll that tells when x was closed.
func (x *XSK) step() (moved int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return 0, errXSKClosed
	}
	return x.poll(), nil
}

// sleep waits for Wakeup, and not for long when something may come by itself.
func (x *XSK) sleep(ctx context.Context, timer *time.Timer) {
	var nap <-chan time.Time
	if x.Rx != nil || x.Outstanding() > 0 {
		timer.Reset(xskNap)
		nap = timer.C
	}
	select {
	case <-ctx.Done():
	case <-x.wake:
	case <-nap:
	}
}
