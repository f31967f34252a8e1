package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// TestB19NoWakeUpIsLost lets a device on another goroutine deliver one frame at
// a time at random moments, to a driver that sleeps until it comes.
func TestB19NoWakeUpIsLost(t *testing.T) {
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) {
			rounds := 20000
			if testing.Short() || raceEnabled {
				rounds = 2000
			}
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer},
				opts: kind.opts, port: port.Config{RxInterrupts: true},
			})
			got := make(chan struct{})
			failed := make(chan error, 1)
			go func() {
				rng := rand.New(rand.NewPCG(1, 2))
				for range rounds {
					for range rng.IntN(400) { // a moment, not a sleep
						_ = rng.Uint64()
					}
					if err := r.dev.Deliver(0, virtio.NetHeader{}, make([]byte, 64)); err != nil {
						failed <- err
						return
					}
					<-got
				}
			}()
			pkts := make([]*mbuf.Buf, 8)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for round := range rounds {
				n := 0
				for n == 0 {
					if err := r.rx().Wait(ctx); err != nil {
						select {
						case cause := <-failed:
							err = fmt.Errorf("%w (device: %v)", err, cause)
						default:
						}
						t.Fatalf("round %d: %v", round, err)
					}
					n = r.rx().Burst(pkts)
				}
				for _, b := range pkts[:n] {
					b.Free()
				}
				got <- struct{}{}
			}
		})
	}
}

func TestWaitEnds(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{RxInterrupts: true}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := r.rx().Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing came: %v", err)
	}
	// A packet that is there already needs no sleep.
	if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(64, 1)); err != nil {
		t.Fatal(err)
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if err := r.rx().Wait(done); err != nil {
		t.Errorf("with a packet there: %v", err)
	}
	r.receive(4)
	// A broken queue does not sleep.
	q := r.dev.Queue(virtio.RxQueue(0))
	q.Use(999, 64)
	r.receive(4)
	if err := r.rx().Wait(t.Context()); err == nil {
		t.Error("a broken queue waits")
	}
}

func TestWaitNeedsInterrupts(t *testing.T) {
	r := startRig(t, rigConfig{})
	if err := r.rx().Wait(t.Context()); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("in poll mode: %v, want ErrNotSupported", err)
	}
	r = newRig(t, rigConfig{dev: fakedev.Config{NoInterrupts: true}, port: port.Config{RxInterrupts: true}})
	if err := r.port.Start(); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("Start on a device without interrupts: %v, want ErrNotSupported", err)
	}
}

func TestWaitWithoutBuffersGoesOn(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{RxInterrupts: true}, buffers: 40})
	var held []*mbuf.Buf
	pkts := make([]*mbuf.Buf, 64)
	for r.dev.Queue(virtio.RxQueue(0)).Available() > 0 {
		if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(64, 1)); err != nil {
			t.Fatal(err)
		}
		held = append(held, pkts[:r.rx().Burst(pkts)]...)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		for _, b := range held {
			b.Free()
		}
		for r.dev.Deliver(0, virtio.NetHeader{}, frame(64, 2)) != nil {
			time.Sleep(time.Millisecond)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.rx().Wait(ctx); err != nil {
		t.Fatal(err)
	}
	compareFrames(t, r.receive(4), [][]byte{frame(64, 2)})
}
