package vhost

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// interrupts configures a port that can be slept on.
var interrupts = port.Config{RxInterrupts: true, TxInterrupts: true}

// echo sends back what comes to a port, and sleeps as its poller says, until stop.
type echo struct {
	poller *port.Poller
	over   atomic.Bool
	done   sync.WaitGroup
}

func startEcho(t testing.TB, p port.Port, spin time.Duration) *echo {
	t.Helper()
	e := &echo{poller: pollerOf(t, p, spin)}
	e.done.Go(func() {
		runtime.LockOSThread()
		pkts := make([]*mbuf.Buf, 32)
		for !e.over.Load() {
			n := p.RxQueue(0).Burst(pkts)
			for sent := 0; sent < n && !e.over.Load(); {
				sent += p.TxQueue(0).Burst(pkts[sent:n])
			}
			e.poller.Next(n, time.Time{})
		}
	})
	return e
}

func (e *echo) stop() {
	e.over.Store(true)
	e.poller.Wake()
	e.done.Wait()
}

// pollerOf sleeps on the receive queue of a port.
func pollerOf(t testing.TB, p port.Port, spin time.Duration) *port.Poller {
	t.Helper()
	alarm, err := port.AlarmOf(p.RxQueue(0))
	if err != nil {
		t.Fatal(err)
	}
	poller, err := port.NewPoller(spin, alarm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { poller.Close() })
	return poller
}

// TestB19PollersOfBothEnds passes a frame to and fro between the driver and the
// port of a back end. Both sleep whenever they wait, over the descriptors of
// vhost-user.
func TestB19PollersOfBothEnds(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, eventIdx := range []bool{false, true} {
			t.Run(fmt.Sprintf("packed=%v,event_idx=%v", packed, eventIdx), func(t *testing.T) {
				rounds := 20_000
				if testing.Short() {
					rounds = 2000
				}
				r := newPortRig(t, PortConfig{Packed: packed}, interrupts)
				g := startGuest(t, r.path, driver.Options{EventIdx: eventIdx}, interrupts)
				host := startEcho(t, r.port, 0)
				defer host.stop()
				poller := pollerOf(t, g.port, 0)
				var late atomic.Bool
				watchdog := time.AfterFunc(time.Minute, func() { late.Store(true); poller.Wake() })
				defer watchdog.Stop()
				b := g.pool.Get()
				b.Append(60)
				one := []*mbuf.Buf{b}
				for round := range rounds {
					if g.port.TxQueue(0).Burst(one) != 1 {
						t.Fatalf("round %d: the frame was not taken", round)
					}
					for n := 0; n == 0; poller.Next(n, time.Time{}) {
						if n = g.port.RxQueue(0).Burst(one); late.Load() {
							t.Fatalf("round %d was slept over", round)
						}
					}
				}
				one[0].Free()
			})
		}
	}
}

// TestSenderToAGuestSleeps waits until a guest comes that has buffers to receive
// into.
func TestSenderToAGuestSleeps(t *testing.T) {
	r := newPortRig(t, PortConfig{}, interrupts)
	alarm, err := port.AlarmOf(r.port.TxQueue(0))
	r.must(err)
	if limit := alarm.Arm(); limit != port.Forever {
		t.Errorf("without a guest it sleeps %v at most", limit)
	}
	alarm.Disarm()
	poller, err := port.NewPoller(0, alarm)
	r.must(err)
	defer poller.Close()
	startGuest(t, r.path, driver.Options{}, port.Config{})
	begin := time.Now()
	for alarm.Arm() != 0 {
		alarm.Disarm()
		poller.Next(0, begin.Add(10*time.Second))
		if time.Since(begin) > 10*time.Second {
			t.Fatal("a guest with buffers is slept over")
		}
	}
	alarm.Disarm()
}
