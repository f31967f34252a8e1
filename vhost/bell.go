package vhost

import (
	"time"

	"vionet/port"
)

// hangBell makes kicks signal an eventfd as well, which is for loops that sleep
// on several queues.
func (q *Queue) hangBell() error {
	bell, err := port.NewEventFD()
	if err == nil {
		q.bell.Store(bell)
	}
	return err
}

// takeBell ends that.
func (q *Queue) takeBell() {
	if bell := q.bell.Swap(nil); bell != nil {
		bell.Close()
	}
}

// askForKick has the driver kick for the next buffers that it makes available.
// It reports whether there are some already, for which no kick may come.
func (q *Queue) askForKick() (pending bool) {
	// Off and on: a wish that was fulfilled is no longer one.
	q.SetNotify(false)
	q.SetNotify(true)
	return q.Pending() > 0
}

// kickAlarm wakes who sleeps on a queue of a port with the driver's kicks.
type kickAlarm struct {
	dev *Queue
	ask func() (pending bool) // for a kick
}

func (a kickAlarm) FD() int { return a.dev.bell.Load().FD() }

func (a kickAlarm) Arm() time.Duration {
	if a.ask() {
		return 0
	}
	return port.Forever
}

// Disarm leaves the wish to the next burst, which takes it back when it finds
// something.
func (a kickAlarm) Disarm() {}
