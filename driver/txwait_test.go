package driver_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// waitForRoom waits on queue 0 of a port that was configured for it.
func (r *rig) waitForRoom(ctx context.Context, free int) error {
	r.t.Helper()
	w, ok := r.tx().(port.TxWaiter)
	if !ok {
		r.t.Fatal("the transmit queue cannot be waited for")
	}
	return w.Wait(ctx, free)
}

// fillTx sends until the ring is full, and returns how many packets it took.
func (r *rig) fillTx() (sent int) {
	r.t.Helper()
	for {
		b := r.packet(frame(60, byte(sent)))
		if r.tx().Burst([]*mbuf.Buf{b}) == 0 {
			b.Free()
			return sent
		}
		sent++
	}
}

// completeSent has a device on a goroutine of its own complete one packet at a
// time, after a random moment each, until done.
func completeSent(q *fakedev.Queue, done *atomic.Bool) error {
	rng := rand.New(rand.NewPCG(3, 4))
	for !done.Load() {
		if q.Available() == 0 {
			runtime.Gosched() // a sleep would be longer than the sender is awake
			continue
		}
		for range rng.IntN(200) { // a moment, not a sleep
			_ = rng.Uint64()
		}
		c, err := q.Take()
		if err != nil {
			return err
		}
		q.Use(uint32(c.Head), 0)
	}
	return nil
}

// TestB19NoRoomIsSleptOver lets a sender sleep for room on a device that
// completes one packet at a time: it wakes every time. With EVENT_IDX one
// interrupt is for many descriptors.
func TestB19NoRoomIsSleptOver(t *testing.T) {
	const size = 64
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) {
			rounds := 500
			if testing.Short() || raceEnabled {
				rounds = 50
			}
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: size},
				opts: kind.opts, port: port.Config{TxInterrupts: true},
			})
			q := r.dev.Queue(virtio.TxQueue(0))
			var done atomic.Bool
			failed := make(chan error, 1)
			go func() { failed <- completeSent(q, &done) }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			rng := rand.New(rand.NewPCG(1, 2))
			wanted := 0
			for round := range rounds {
				r.fillTx()
				free := 1 + rng.IntN(size)
				wanted += free
				if err := r.waitForRoom(ctx, free); err != nil {
					t.Fatalf("round %d: wait for %d: %v", round, free, err)
				}
				for n := range free { // they are there without another look at the device
					b := r.packet(frame(60, byte(n)))
					if r.tx().Burst([]*mbuf.Buf{b}) != 1 {
						t.Fatalf("round %d: room for %d of %d packets", round, n, free)
					}
				}
			}
			done.Store(true)
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			t.Logf("%d interrupts for %d descriptors", q.Interrupts(), wanted)
			if kind.offer&virtio.EventIdx != 0 && q.Interrupts() > 2*rounds {
				t.Errorf("%d interrupts in %d waits", q.Interrupts(), rounds)
			}
		})
	}
}

// TestB19LastPacketIsNotSleptOver has a sender wait until its only packet was sent,
// which happens about when it is going to sleep: nothing comes after that and wakes
// it.
func TestB19LastPacketIsNotSleptOver(t *testing.T) {
	const size = 64
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) {
			rounds := 3000
			if testing.Short() || raceEnabled {
				rounds = 300
			}
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: size},
				opts: kind.opts, port: port.Config{TxInterrupts: true},
			})
			var done atomic.Bool
			failed := make(chan error, 1)
			go func() { failed <- completeSent(r.dev.Queue(virtio.TxQueue(0)), &done) }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for round := range rounds {
				if r.tx().Burst([]*mbuf.Buf{r.packet(frame(60, 1))}) != 1 {
					t.Fatalf("round %d: the packet was not taken", round)
				}
				if err := r.waitForRoom(ctx, size); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
			done.Store(true)
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestTxWaitIsWokenOnce completes packets while a sender waits for many of them:
// under EVENT_IDX it is woken by the last one alone.
func TestTxWaitIsWokenOnce(t *testing.T) {
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		if kind.offer&virtio.EventIdx == 0 {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 64},
				opts: kind.opts, port: port.Config{TxInterrupts: true},
			})
			r.fillTx()
			woken := make(chan error, 1)
			go func() { woken <- r.waitForRoom(t.Context(), 32) }()
			q := r.dev.Queue(virtio.TxQueue(0))
			for range 32 {
				time.Sleep(200 * time.Microsecond) // for a sender that is woken too early
				c, err := q.Take()
				if err != nil {
					t.Fatal(err)
				}
				q.Use(uint32(c.Head), 0)
			}
			if err := <-woken; err != nil {
				t.Fatal(err)
			}
			if n := q.Interrupts(); n > 1 {
				t.Errorf("%d interrupts for 32 descriptors", n)
			}
		})
	}
}

func TestTxWaitEnds(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{QueueSize: 64}, port: port.Config{TxInterrupts: true}})
	if err := r.waitForRoom(t.Context(), 64); err != nil {
		t.Errorf("on an empty ring: %v", err)
	}
	for _, free := range []int{-1, 0, 65} {
		if err := r.waitForRoom(t.Context(), free); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("for %d descriptors of 64: %v, want ErrInvalid", free, err)
		}
	}
	r.fillTx()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
	if err := r.waitForRoom(ctx, 1); !errors.Is(err, cause) {
		t.Errorf("nothing was sent: %v", err)
	}
	ended := make(chan error, 1)
	waiter := r.tx().(port.TxWaiter)
	go func() { ended <- waiter.Wait(context.Background(), 1) }()
	time.Sleep(5 * time.Millisecond)
	if err := r.port.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, port.ErrClosed) {
		t.Errorf("when the port stops: %v, want ErrClosed", err)
	}
}

func TestTxWaitOnABrokenQueue(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{QueueSize: 64}, port: port.Config{TxInterrupts: true}})
	r.fillTx()
	r.dev.Queue(virtio.TxQueue(0)).Use(999, 0)
	if err := r.waitForRoom(t.Context(), 1); err == nil {
		t.Error("a broken queue waits")
	}
}

func TestTxWaitNeedsInterrupts(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{RxInterrupts: true}})
	if err := r.waitForRoom(t.Context(), 1); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("without TxInterrupts: %v, want ErrNotSupported", err)
	}
	r = newRig(t, rigConfig{dev: fakedev.Config{NoInterrupts: true}, port: port.Config{TxInterrupts: true}})
	if err := r.port.Start(); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("Start on a device without interrupts: %v, want ErrNotSupported", err)
	}
}

// TestTxWaitCountsChains waits for descriptors while the ring holds chains of
// several, for which there are fewer interrupts to wait for than descriptors.
func TestTxWaitCountsChains(t *testing.T) {
	for _, kind := range ringKinds {
		t.Run(kind.name, func(t *testing.T) {
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 64},
				opts: kind.opts, port: port.Config{TxInterrupts: true, TxOffloads: port.TxMultiSegs},
			})
			q := r.dev.Queue(virtio.TxQueue(0))
			for range 10 {
				var sent int
				for b := r.packet(frame(60, 1), frame(60, 2), frame(60, 3)); ; b = r.packet(frame(60, 1), frame(60, 2), frame(60, 3)) {
					if r.tx().Burst([]*mbuf.Buf{b}) == 0 {
						b.Free()
						break
					}
					sent++
				}
				woken := make(chan error, 1)
				go func() { woken <- r.waitForRoom(t.Context(), 64) }()
				for range sent {
					c, err := q.Take()
					if err != nil {
						t.Fatal(err)
					}
					q.Use(uint32(c.Head), 0)
				}
				select {
				case err := <-woken:
					if err != nil {
						t.Fatal(err)
					}
				case <-time.After(10 * time.Second):
					t.Fatal("the sender sleeps on, with everything sent")
				}
			}
		})
	}
}
