package port

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Poller lets a loop that polls queues sleep while nothing moves: it spins for a
// while, then asks every queue for an alarm and sleeps until one of them gives
// it. No goroutine is started for that. One that sleeps holds its thread, so that
// the kernel wakes it and no other: a poll loop has a thread of its own anyway.
//
// One goroutine uses a Poller, the one that polls; Wake alone may be called from
// any. Close it before the ports are stopped.
type Poller struct {
	spin   time.Duration
	alarms []Alarm
	epoll  int
	wake   *EventFD
	idle   time.Time // since when nothing has moved; zero: something has
	events []unix.EpollEvent
}

// NewPoller makes a Poller for a loop that polls the queues of these alarms; see
// AlarmOf. It sleeps after spin without a packet: 0 is at once, which costs
// least and wakes last; a spin as long as a sleep and a wake-up take, some tens
// of microseconds, never costs more than twice what the better of both would.
func NewPoller(spin time.Duration, alarms ...Alarm) (*Poller, error) {
	if spin < 0 {
		return nil, fmt.Errorf("poll for %v before a sleep: %w: must not be negative", spin, ErrInvalid)
	}
	p := &Poller{spin: spin, alarms: alarms, events: make([]unix.EpollEvent, len(alarms)+1)}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w: raise the limit of open files (ulimit -n)", err)
	}
	if p.wake, err = NewEventFD(); err != nil {
		unix.Close(p.epoll)
		return nil, err
	}
	if err := p.watch(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// watch registers the descriptors. Their edges count: a signal that came while
// nobody slept ends the next sleep at once, and none of them has to be read.
func (p *Poller) watch() error {
	fds := []int{p.wake.FD()}
	for _, a := range p.alarms {
		fds = append(fds, a.FD())
	}
	for _, fd := range fds {
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return fmt.Errorf("epoll on the descriptor %d of a queue: %w", fd, err)
		}
	}
	return nil
}

// Next ends a round of the loop in which so many packets were moved. It returns
// at once, or after a sleep: which ends when a queue has something to do, with
// Wake, or at until, unless that is zero. It may end without a cause.
func (p *Poller) Next(moved int, until time.Time) {
	if moved > 0 {
		p.idle = time.Time{}
		return
	}
	now := time.Now()
	if p.idle.IsZero() {
		p.idle = now
	}
	if now.Sub(p.idle) < p.spin {
		return
	}
	limit := Forever
	if !until.IsZero() {
		limit = until.Sub(now)
	}
	p.sleep(limit)
}

// sleep arms the alarms, and sleeps unless one of them says that there is
// something to do.
func (p *Poller) sleep(limit time.Duration) {
	armed := 0
	for armed < len(p.alarms) && limit >= time.Millisecond {
		limit = min(limit, p.alarms[armed].Arm())
		armed++
	}
	if limit >= time.Millisecond { // the kernel counts in them
		ms := -1
		if limit < Forever {
			ms = int(limit / time.Millisecond)
		}
		// An error is the end of the sleep, too: the loop goes on polling.
		_, _ = unix.EpollWait(p.epoll, p.events, ms)
	}
	for _, a := range p.alarms[:armed] {
		a.Disarm()
	}
}

// Wake ends the sleep of the loop, or else the next one before it begins.
func (p *Poller) Wake() { _ = p.wake.Signal() }

// Close gives the Poller's descriptors back. Nobody sleeps any more.
func (p *Poller) Close() error {
	return errors.Join(unix.Close(p.epoll), p.wake.Close())
}
