package testpmd

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
	"vionet/testpmd/engine"
)

// worker drives streams on one core.
type worker struct {
	core    Core
	forward func(*engine.Stream) int
	streams []*engine.Stream
	cache   *mbuf.Cache
	drain   bool // throw away what was received before
	txFirst int  // bursts to send first
	stop    *atomic.Bool
	poller  *port.Poller // nil: it never sleeps
	yields  bool         // other goroutines have no thread but its own
	// generates says that the streams make their packets themselves.
	generates bool
	begin     time.Time     // of forwarding
	ready     chan struct{} // closed when forwarding begins
	faults    chan<- error
}

// Emptying a receive queue: what may sit in the longest ring is thrown away
// twice, with time for what is under way in between.
const (
	drainRounds = 2
	drainLimit  = 1 << 15
	drainPause  = 10 * time.Millisecond
)

// A worker lets others have the processor for a moment after so many polls without a
// packet, or so many rounds with some: a few milliseconds at most. The runtime takes
// it by force from who keeps it for 10 ms, with a signal and a search for another
// thread, which holds frames up for tens of microseconds.
const (
	idlePolls  = 1024
	busyRounds = 1024
)

// run forwards until it is told to stop. It keeps its thread to the core and
// leaves no buffer in its cache. A panic ends it and becomes a fault, so that
// the ports can still be closed in order.
func (w *worker) run() {
	defer func() {
		if r := recover(); r != nil {
			select {
			case w.faults <- fmt.Errorf("forwarding on lcore %d broke down: %v\n%s", w.core.ID, r, debug.Stack()):
			default: // there are enough of them to end the console
			}
		}
	}()
	defer w.cache.Flush()
	begin := sync.OnceFunc(func() { close(w.ready) })
	defer begin()
	if w.poller != nil {
		defer w.poller.Close()
	}
	w.bind()
	for _, s := range w.streams {
		s.UseCache(w.cache)
	}
	if w.drain {
		w.emptyQueues()
	}
	begin()
	if len(w.streams) == 0 {
		return
	}
	defer w.finish()
	w.begin = time.Now()
	for range w.txFirst {
		for _, s := range w.streams {
			engine.TxOnly.Forward(s)
		}
		if w.stop.Load() {
			return
		}
	}
	if w.poller == nil {
		w.loop()
	} else {
		w.doze()
	}
}

// finish lets go of what modes hold back.
func (w *worker) finish() {
	for _, s := range w.streams {
		s.Finish()
	}
}

// bind ties the goroutine to its core, unless the process has no others. The thread
// dies with the goroutine, and so does the binding. It has its price: a goroutine that
// is tied to a thread is not simply taken up again when it has let others go first,
// but two threads have to wake each other.
func (w *worker) bind() {
	if len(w.core.CPUs) == 0 {
		return
	}
	var set, all unix.CPUSet
	for _, cpu := range w.core.CPUs {
		set.Set(cpu)
	}
	if err := unix.SchedGetaffinity(0, &all); err == nil && set == all {
		return
	}
	runtime.LockOSThread()
	// A processor that is not ours to use leaves the thread where it was:
	// slower, not wrong.
	_ = unix.SchedSetaffinity(0, &set)
}

func (w *worker) emptyQueues() {
	for round := range drainRounds {
		if round > 0 {
			time.Sleep(drainPause)
		}
		for _, s := range w.streams {
			s.Drain(drainLimit)
		}
	}
}

// loop is where packets are forwarded.
func (w *worker) loop() {
	idle, busy := 0, 0
	for !w.stop.Load() {
		if w.round() > 0 {
			idle = 0
			if busy++; busy == busyRounds {
				busy = 0
				w.yield()
			}
			continue
		}
		if idle++; idle == idlePolls {
			idle = 0
			w.reclaim()
			w.yield()
		}
	}
}

// round forwards a burst of each stream, sends what has waited long enough, and
// returns the number of packets that moved or wait to.
func (w *worker) round() (packets int) {
	for _, s := range w.streams {
		packets += w.forward(s)
	}
	return packets + w.poll()
}

// poll sends what has waited long enough in front of transmit queues, and
// returns how many packets waited: as long as some do, nobody sleeps. The clock
// is read once, and only then.
func (w *worker) poll() (waiting int) {
	var now time.Duration
	for _, s := range w.streams {
		n := s.Waiting()
		if n == 0 {
			continue
		}
		if waiting == 0 {
			now = time.Since(w.begin)
		}
		waiting += n
		s.Poll(now)
	}
	return waiting
}

// yield lets other goroutines run, where there are not enough threads for all of them.
// Elsewhere it does not: see bind.
func (w *worker) yield() {
	if w.yields {
		runtime.Gosched()
	}
}

// reclaim gives back what was sent.
func (w *worker) reclaim() {
	for _, s := range w.streams {
		s.Tx.Reclaim()
	}
}
