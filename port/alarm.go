package port

import (
	"fmt"
	"math"
	"time"
)

// Alarm wakes a goroutine that sleeps on several queues at once; a Poller does.
// The goroutine that calls the queue's Burst calls it, and no longer after the
// port was stopped.
type Alarm interface {
	// FD is the descriptor that the queue signals (EPOLLIN). It belongs to the
	// queue, and is the same until the port is stopped.
	FD() int
	// Arm asks for a signal when there is something to do, and then looks once
	// more. It returns how long to sleep at most: 0 when there is something to
	// do already, or Forever.
	//
	// A receive queue has something to do when packets may be there; a transmit
	// queue when a good part of what it held was sent, or it holds nothing.
	Arm() time.Duration
	// Disarm takes the wish back. It follows every Arm.
	Disarm()
}

// Forever is longer than anybody sleeps.
const Forever time.Duration = math.MaxInt64

// Alarmer is a receive or transmit queue that has an Alarm.
type Alarmer interface {
	// Alarm gives the queue's alarm. The port must have been configured with
	// RxInterrupts or TxInterrupts, whichever the queue is; otherwise the error
	// wraps ErrNotSupported.
	Alarm() (Alarm, error)
}

// AlarmOf gives the alarm of a RxQueue or TxQueue. The error of a queue that has
// none wraps ErrNotSupported.
func AlarmOf(queue any) (Alarm, error) {
	if a, ok := queue.(Alarmer); ok {
		return a.Alarm()
	}
	return nil, fmt.Errorf("sleep on a queue: %w: it can only be polled", ErrNotSupported)
}
