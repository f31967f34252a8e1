package driver

import (
	"fmt"
	"time"

	"vionet/port"
)

var (
	_ port.Alarmer = (*RxQueue)(nil)
	_ port.Alarmer = (*TxQueue)(nil)
)

// Alarm is for loops that sleep on several queues; see port.Alarmer.
func (q *RxQueue) Alarm() (port.Alarm, error) {
	if q.ended.Load() {
		return nil, errEnded
	}
	if q.event == nil {
		return nil, fmt.Errorf("alarm of a receive queue: %w: configure the port with RxInterrupts", port.ErrNotSupported)
	}
	return rxAlarm{q}, nil
}

// rxAlarm is what Wait does, in steps.
type rxAlarm struct{ q *RxQueue }

func (a rxAlarm) FD() int { return a.q.event.FD() }

func (a rxAlarm) Arm() time.Duration {
	q := a.q
	q.topUp()
	switch {
	case q.Err() != nil:
		return port.Forever // nothing comes any more
	case !q.ring.Arm():
		return 0
	case q.starved():
		return starvedPause
	default:
		return port.Forever
	}
}

func (a rxAlarm) Disarm() { a.q.ring.Disarm() }

// Alarm is for loops that sleep on several queues; see port.Alarmer.
func (q *TxQueue) Alarm() (port.Alarm, error) {
	if q.ended.Load() {
		return nil, errEnded
	}
	if q.event == nil {
		return nil, fmt.Errorf("alarm of a transmit queue: %w: configure the port with TxInterrupts", port.ErrNotSupported)
	}
	return txAlarm{q}, nil
}

// txAlarm wakes when half of what the device holds was sent: it then has the
// other half to go on with until new packets come.
type txAlarm struct{ q *TxQueue }

func (a txAlarm) FD() int { return a.q.event.FD() }

func (a txAlarm) Arm() time.Duration {
	q := a.q
	reclaimed := q.Reclaim()
	owned := q.limit - q.ring.Free()
	switch {
	case q.Err() != nil:
		return port.Forever // nothing goes any more
	case reclaimed > 0 || owned == 0 || !q.ring.ArmAfter((owned+1)/2):
		return 0
	default:
		return port.Forever
	}
}

func (a txAlarm) Disarm() { a.q.ring.Disarm() }
