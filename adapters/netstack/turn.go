package netstack

import (
	"context"
	"time"
)

// turn is the right to use a queue, which one goroutine has at a time. Unlike a
// mutex it can be waited for with a limit, so that its holder may sleep.
type turn chan struct{}

// newTurn gives a turn that the caller has.
func newTurn() turn {
	t := make(turn, 1)
	t <- struct{}{}
	return t
}

// take waits for the turn.
func (t turn) take() { t <- struct{}{} }

// takeUntil waits for the turn until ctx is done, and reports whether it came.
func (t turn) takeUntil(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// takeWithin waits for the turn as long as limit, or until closed is, and reports
// whether it came.
func (t turn) takeWithin(limit time.Duration, closed <-chan struct{}) bool {
	select {
	case t <- struct{}{}: // nearly always
		return true
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return true
	case <-closed:
	case <-timer.C:
	}
	return false
}

// give lets the next one have the turn.
func (t turn) give() { <-t }

// nap sleeps for a moment, or until ctx is done: where nothing gives an alarm.
func nap(ctx context.Context, moment time.Duration) {
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
