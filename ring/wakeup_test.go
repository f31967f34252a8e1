package ring

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bell is a kick or an interrupt. Who sleeps on it spins for a while before it
// really sleeps, so that both sides run at the same time and the race is on in
// every round; a sleep each time would leave the processor to the other side.
type bell struct {
	state  atomic.Int32
	parked chan struct{}
	rings  int // of who rings it
	wishes int // to have it rung
	late   int // of them, how many found work at the second look: the race was on
	spins  int // see patience
}

// What a bell is.
const (
	silent int32 = iota
	rung
	sleptOn
)

func newBell() bell { return bell{parked: make(chan struct{}, 1), spins: maxSpins} }

func (b *bell) ring() {
	b.rings++
	if b.state.Swap(rung) == sleptOn {
		b.parked <- struct{}{}
	}
}

// A spin of maxSpins takes longer than Go's scheduler needs to move a goroutine to
// another processor. After shorter ones who is woken runs where the other side ran,
// once that has gone to sleep: they take turns, and no race is ever on.
const maxSpins = 20_000

// patience is how long the sleeper spins next: long while that helps. A peer that
// does not run is only made to wait; but it is tried anew now and then.
func (b *bell) patience() int {
	if b.wishes%64 == 0 {
		b.spins = maxSpins
	}
	return b.spins
}

// overslept is how long nobody sleeps with work to do.
const overslept = time.Second

// sleep waits for the bell, and fails if there is work and it is not rung.
func (b *bell) sleep(work func() bool) error {
	for range b.patience() {
		// A load leaves the cache line with who rings.
		if b.state.Load() == rung {
			b.state.Store(silent)
			b.spins = maxSpins
			return nil
		}
	}
	b.spins = max(b.spins/2, maxSpins/64)
	if !b.state.CompareAndSwap(silent, sleptOn) {
		b.state.Store(silent)
		return nil
	}
	late := time.NewTimer(overslept)
	defer late.Stop()
	for missed := false; ; late.Reset(overslept) {
		select {
		case <-b.parked:
			b.state.Store(silent)
			return nil
		case <-late.C:
			// A peer that the machine holds up may have shown its work and not
			// rung yet: it has a second chance.
			if work() && missed {
				return fmt.Errorf("asleep for %v with work to do", 2*overslept)
			}
			missed = true
		}
	}
}

// pauses are random moments of up to a hundred nanoseconds or so.
type pauses uint64

func (p *pauses) roll(n uint64) uint64 {
	*p ^= *p << 13
	*p ^= *p >> 7
	*p ^= *p << 17
	return uint64(*p) % n
}

func (p *pauses) pause() {
	for range p.roll(64) {
		*p += 2
	}
}

// wakeups are both sides of a virtqueue, each on a goroutine of its own, that
// sleep whenever they have nothing to do.
type wakeups struct {
	drv      Driver
	dev      Device
	suppress bool // say when notifications are not wanted
	rounds   int  // chains
	window   int  // most of them under way

	kick, interrupt bell
	over            atomic.Bool // a side has failed
}

// drive makes chains available one at a time and waits, with as many under way
// as a random limit allows, until one is complete, as a receiver does, or several
// are, as a sender.
func (w *wakeups) drive() error {
	rng := pauses(88172645463325252)
	var heads [1]uint16
	done := make([]Completion, w.window)
	made, back := 0, 0
	for limit := 1; back < w.rounds && !w.over.Load(); limit = 1 + int(rng.roll(uint64(w.window))) {
		for made < w.rounds && made-back < limit {
			w.drv.AddEach([]Segment{{Addr: 1, Len: 1}}, DescWrite, heads[:])
			w.drv.Publish()
			made++
			if w.drv.NeedKick() {
				w.kick.ring()
			}
		}
		rng.pause()
		n := w.drv.Harvest(done)
		back += n
		if n > 0 || made == back {
			continue
		}
		var armed bool
		if rng.roll(2) == 0 {
			armed = w.drv.Arm()
		} else {
			armed = w.drv.ArmAfter(1 + int(rng.roll(uint64(made-back))))
		}
		if w.interrupt.wishes++; !armed {
			w.interrupt.late++
		} else {
			if err := w.interrupt.sleep(w.completions); err != nil {
				return fmt.Errorf("driver, after %d chains: %w", back, err)
			}
		}
		if w.suppress {
			w.drv.Disarm()
		}
	}
	return w.drv.Err()
}

// completions reports whether there are some to harvest.
func (w *wakeups) completions() bool {
	if r, ok := w.drv.(*Packed); ok {
		return r.completed()
	}
	return w.drv.(*Split).pending(1) > 0
}

// serve completes the chains, a few at a time.
func (w *wakeups) serve() error {
	rng := pauses(2463534242)
	chains, pieces, done := make([]Chain, w.window), make([]Piece, w.window), make([]Completion, w.window)
	for served := 0; served < w.rounds && !w.over.Load(); {
		n := w.dev.Take(chains[:1+rng.roll(uint64(w.window))], pieces)
		if n == 0 {
			w.kick.wishes++
			if w.dev.Notify(true); w.dev.Pending() > 0 {
				w.kick.late++
				continue
			}
			if err := w.kick.sleep(func() bool { return w.dev.Pending() > 0 }); err != nil {
				return fmt.Errorf("device, after %d chains: %w", served, err)
			}
			if w.suppress {
				w.dev.Notify(false)
			}
			continue
		}
		rng.pause()
		for i, c := range chains[:n] {
			done[i] = Completion{Head: c.Head, Len: 1}
		}
		w.dev.Complete(done[:n])
		if w.dev.Flush() {
			w.interrupt.ring()
		}
		served += n
	}
	return w.dev.Err()
}

// run is over when all chains are back, or a side fails.
func (w *wakeups) run(t *testing.T) {
	t.Helper()
	var sides sync.WaitGroup
	for _, side := range []func() error{w.drive, w.serve} {
		sides.Go(func() {
			if err := side(); err != nil {
				t.Error(err)
				w.over.Store(true) // and the other side wakes
				w.kick.ring()
				w.interrupt.ring()
			}
		})
	}
	sides.Wait()
}

// suppressions are the ways in which the sides tell when they want to be
// notified.
var suppressions = []struct {
	name     string
	suppress bool
	opts     Options
}{
	{"no suppression", false, Options{}},
	{"flags", true, Options{}},
	{"event index", true, Options{EventIdx: true}},
}

// TestB19TenMillionSleeps has both sides of all kinds of virtqueues sleep and
// wake each other, ten million times in all.
func TestB19TenMillionSleeps(t *testing.T) {
	rounds := 10_000_000/6 + 1
	if testing.Short() {
		rounds = 50_000
	}
	for _, packed := range []bool{false, true} {
		for _, kind := range suppressions {
			t.Run(fmt.Sprintf("packed=%v/%s", packed, kind.name), func(t *testing.T) {
				s := newSides(t, packed, 8, kind.opts, false)
				w := &wakeups{drv: s.drv, dev: s.dev, suppress: kind.suppress, rounds: rounds, window: 4, kick: newBell(), interrupt: newBell()}
				w.run(t)
				t.Logf("%d chains, %d kicks of %d wishes, %d too late; %d interrupts of %d, %d too late", rounds,
					w.kick.rings, w.kick.wishes, w.kick.late, w.interrupt.rings, w.interrupt.wishes, w.interrupt.late)
				if kind.suppress && w.kick.rings >= rounds {
					t.Errorf("%d kicks for %d chains: suppression does nothing", w.kick.rings, rounds)
				}
				if !kind.suppress && w.kick.rings != rounds {
					t.Errorf("%d kicks for %d chains, want all", w.kick.rings, rounds)
				}
			})
		}
	}
}

// gate lets two goroutines through together, round by round.
type gate struct{ at [2]atomic.Int64 }

func (g *gate) pass(side int) {
	round := g.at[side].Add(1)
	for spins := 1; g.at[1-side].Load() < round; spins++ {
		if spins%256 == 0 {
			runtime.Gosched()
		}
	}
}

// TestB19Litmus has one side publish while the other says that it wants to be
// notified, and looks: the one notifies, or the other sees what was published.
// Both ways round: chains and kicks, completions and interrupts.
func TestB19Litmus(t *testing.T) {
	rounds := 300_000
	if testing.Short() {
		rounds = 20_000
	}
	for _, packed := range []bool{false, true} {
		for _, kind := range suppressions[1:] {
			t.Run(fmt.Sprintf("packed=%v/%s", packed, kind.name), func(t *testing.T) {
				s := newSides(t, packed, 8, kind.opts, false)
				var g gate
				var kicked, armed bool // the driver's, read by the device behind the gate
				var kicks, interrupts, lostKicks, lostInterrupts int
				var sides sync.WaitGroup
				sides.Go(func() {
					var heads [1]uint16
					var done [1]Completion
					rng := pauses(88172645463325252)
					for range rounds {
						g.pass(0)
						rng.pause()
						s.drv.AddEach([]Segment{{Addr: 1, Len: 1}}, DescWrite, heads[:])
						s.drv.Publish()
						kicked = s.drv.NeedKick()
						g.pass(0)
						g.pass(0)
						rng.pause()
						armed = s.drv.Arm()
						g.pass(0)
						s.drv.Harvest(done[:])
						s.drv.Disarm()
					}
				})
				sides.Go(func() {
					chains, pieces := make([]Chain, 1), make([]Piece, 1)
					rng := pauses(2463534242)
					for range rounds {
						s.dev.Notify(false)
						g.pass(1)
						rng.pause()
						s.dev.Notify(true)
						seen := s.dev.Pending() > 0
						g.pass(1)
						if kicked {
							kicks++
						} else if !seen {
							lostKicks++
						}
						s.dev.Take(chains, pieces)
						s.dev.Complete([]Completion{{Head: chains[0].Head, Len: 1}})
						g.pass(1)
						rng.pause()
						interrupt := s.dev.Flush()
						g.pass(1)
						if interrupt {
							interrupts++
						} else if armed {
							lostInterrupts++
						}
					}
				})
				sides.Wait()
				t.Logf("of %d rounds %d kicked and %d interrupted", rounds, kicks, interrupts)
				if lostKicks > 0 || lostInterrupts > 0 {
					t.Errorf("%d kicks and %d interrupts were lost", lostKicks, lostInterrupts)
				}
				if err := s.drv.Err(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
