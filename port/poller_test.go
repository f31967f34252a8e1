package port_test

import (
	"errors"
	"testing"
	"time"

	"vionet/port"
)

// fakeAlarm is a queue that has something to do when it was given some.
type fakeAlarm struct {
	*port.EventFD
	limit        time.Duration // what Arm returns
	armed, taken int
}

func newFakeAlarm(t *testing.T, limit time.Duration) *fakeAlarm {
	t.Helper()
	event, err := port.NewEventFD()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { event.Close() })
	return &fakeAlarm{EventFD: event, limit: limit}
}

func (a *fakeAlarm) Arm() time.Duration { a.armed++; return a.limit }
func (a *fakeAlarm) Disarm()            { a.taken++ }

func newPoller(t *testing.T, spin time.Duration, alarms ...port.Alarm) *port.Poller {
	t.Helper()
	p, err := port.NewPoller(spin, alarms...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// returns fails the test when the sleep does not end.
func returns(t *testing.T, p *port.Poller, until time.Time) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		p.Next(0, until)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		p.Wake()
		t.Fatal("the sleep does not end")
	}
}

func TestPollerSleepEnds(t *testing.T) {
	for name, wake := range map[string]func(p *port.Poller, a, b *fakeAlarm){
		"first queue":           func(_ *port.Poller, a, _ *fakeAlarm) { a.Signal() },
		"second queue":          func(_ *port.Poller, _, b *fakeAlarm) { b.Signal() },
		"wake":                  func(p *port.Poller, _, _ *fakeAlarm) { p.Wake() },
		"something to do":       func(_ *port.Poller, _, b *fakeAlarm) { b.limit = 0 },
		"a queue's own limit":   func(_ *port.Poller, a, _ *fakeAlarm) { a.limit = 2 * time.Millisecond },
		"limit below the clock": func(_ *port.Poller, a, _ *fakeAlarm) { a.limit = time.Microsecond },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newFakeAlarm(t, port.Forever), newFakeAlarm(t, port.Forever)
			p := newPoller(t, 0, a, b)
			for range 3 { // signals are edges: none is left over, none is lost
				wake(p, a, b)
				returns(t, p, time.Time{})
			}
			if a.armed != a.taken || b.armed != b.taken {
				t.Errorf("armed %d and %d times, disarmed %d and %d times", a.armed, b.armed, a.taken, b.taken)
			}
		})
	}
	p := newPoller(t, 0, newFakeAlarm(t, port.Forever))
	returns(t, p, time.Now().Add(3*time.Millisecond))
	returns(t, p, time.Now().Add(-time.Second))
}

// TestPollerSleeps counts how often a loop comes round: not at all by itself.
func TestPollerSleeps(t *testing.T) {
	a := newFakeAlarm(t, port.Forever)
	p := newPoller(t, 0, a)
	done := make(chan struct{})
	go func() {
		for range 3 {
			p.Next(0, time.Time{})
		}
		close(done)
	}()
	for range 3 {
		select {
		case <-done:
			t.Fatal("it came round without a signal")
		case <-time.After(5 * time.Millisecond):
		}
		a.Signal()
	}
	<-done
}

// TestPollerSpins comes round without a sleep while packets move, and for a
// while after that.
func TestPollerSpins(t *testing.T) {
	a := newFakeAlarm(t, port.Forever)
	p := newPoller(t, time.Hour, a)
	for range 1000 {
		p.Next(0, time.Time{})
	}
	if a.armed != 0 {
		t.Errorf("armed %d times within the spin", a.armed)
	}
	p = newPoller(t, 0, a)
	p.Next(1, time.Time{})
	if a.armed != 0 {
		t.Error("it would have slept though packets moved")
	}
}

func TestPollerRefuses(t *testing.T) {
	if _, err := port.NewPoller(-time.Second); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("a negative spin: %v, want ErrInvalid", err)
	}
	closed := newFakeAlarm(t, 0)
	closed.Close()
	if _, err := port.NewPoller(0, closed); err == nil {
		t.Error("a closed descriptor was taken")
	}
	if _, err := port.AlarmOf(struct{}{}); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("alarm of nothing: %v, want ErrNotSupported", err)
	}
}
