package driver_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

func alarmOf(t *testing.T, queue any) port.Alarm {
	t.Helper()
	a, err := port.AlarmOf(queue)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestB19AnyOfSeveralQueuesWakes has a loop sleep on the receive queues of two
// ports, while their devices deliver one frame at a time, to either.
func TestB19AnyOfSeveralQueuesWakes(t *testing.T) {
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) {
			rounds := 20000
			if testing.Short() || raceEnabled {
				rounds = 2000
			}
			cfg := rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer},
				opts: kind.opts, port: port.Config{RxInterrupts: true},
			}
			rigs := [2]*rig{startRig(t, cfg), startRig(t, cfg)}
			p, err := port.NewPoller(0, alarmOf(t, rigs[0].rx()), alarmOf(t, rigs[1].rx()))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var late atomic.Bool
			watchdog := time.AfterFunc(time.Minute, func() { late.Store(true); p.Wake() })
			defer watchdog.Stop()
			got, failed := make(chan struct{}), make(chan error, 1)
			go func() {
				rng := rand.New(rand.NewPCG(1, 2))
				for range rounds {
					for range rng.IntN(400) { // a moment, not a sleep
						_ = rng.Uint64()
					}
					if err := rigs[rng.IntN(2)].dev.Deliver(0, virtio.NetHeader{}, make([]byte, 64)); err != nil {
						failed <- err
						return
					}
					<-got
				}
			}()
			pkts := make([]*mbuf.Buf, 8)
			for round := range rounds {
				moved := 0
				for ; moved == 0; p.Next(moved, time.Time{}) {
					for _, r := range rigs {
						n := r.rx().Burst(pkts)
						for _, b := range pkts[:n] {
							b.Free()
						}
						moved += n
					}
					select {
					case err := <-failed:
						t.Fatal(err)
					default:
					}
					if late.Load() {
						t.Fatalf("round %d was slept over", round)
					}
				}
				got <- struct{}{}
			}
		})
	}
}

// TestTxAlarm says when a full ring is worth waking for: when half of it was
// sent, by one interrupt where there is EVENT_IDX.
func TestTxAlarm(t *testing.T) {
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) {
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 64},
				opts: kind.opts, port: port.Config{TxInterrupts: true},
			})
			a, q := alarmOf(t, r.tx()), r.dev.Queue(virtio.TxQueue(0))
			if a.Arm() != 0 {
				t.Error("an empty ring is slept on")
			}
			a.Disarm()
			r.fillTx()
			if a.Arm() != port.Forever {
				t.Fatal("a full ring is not slept on")
			}
			for i := range 64 {
				c, err := q.Take()
				if err != nil {
					t.Fatal(err)
				}
				q.Use(uint32(c.Head), 0)
				want := i + 1 // each completion interrupts
				if kind.offer&virtio.EventIdx != 0 {
					want = (i + 1) / 32 // the 32nd does
				}
				if got := q.Interrupts(); i < 32 && got != want {
					t.Fatalf("%d interrupts for %d completions, want %d", got, i+1, want)
				}
			}
			a.Disarm()
			if a.Arm() != 0 {
				t.Error("completions are slept over")
			}
			a.Disarm()
		})
	}
}

func TestAlarmsNeedInterrupts(t *testing.T) {
	r := startRig(t, rigConfig{})
	for _, queue := range []any{r.rx(), r.tx()} {
		if _, err := port.AlarmOf(queue); !errors.Is(err, port.ErrNotSupported) {
			t.Errorf("%T in poll mode: %v, want ErrNotSupported", queue, err)
		}
	}
}

// TestAlarmOfStarvedQueue limits the sleep of a queue that nothing can wake.
func TestAlarmOfStarvedQueue(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{RxInterrupts: true}, buffers: 40})
	a := alarmOf(t, r.rx())
	if a.Arm() != port.Forever {
		t.Error("a queue with buffers does not sleep")
	}
	a.Disarm()
	var held []*mbuf.Buf
	pkts := make([]*mbuf.Buf, 64)
	for r.dev.Queue(virtio.RxQueue(0)).Available() > 0 {
		if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(64, 1)); err != nil {
			t.Fatal(err)
		}
		held = append(held, pkts[:r.rx().Burst(pkts)]...)
	}
	if limit := a.Arm(); limit <= 0 || limit > time.Second {
		t.Errorf("a queue without buffers sleeps %v", limit)
	}
	a.Disarm()
	for _, b := range held {
		b.Free()
	}
}
