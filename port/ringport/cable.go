package ringport

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"vionet/port"
)

// maxQueues is the largest number of queues of a kind, that of DPDK's net_ring.
const maxQueues = 16

// wire carries packets to one end of a cable: a lane for each transmit queue of
// the sender. Receive queue i of n takes from the lanes i, i+n, i+2n, … so that
// every lane is read, whatever the numbers of queues are.
type wire struct {
	size  int
	lanes [maxQueues]*lane
	used  atomic.Int32 // lanes that are there; they stay
	// bells holds, for each lane, whom to wake when packets come.
	bells [maxQueues]atomic.Pointer[port.EventFD]
}

func newWire(size int) *wire {
	return &wire{size: 1 << bits.Len(uint(size-1))}
}

// widen makes the lanes for n transmit queues. A receiver may be at work.
func (w *wire) widen(n int) {
	for i := int(w.used.Load()); i < n; i++ {
		w.lanes[i] = newLane(w.size)
		w.used.Store(int32(i + 1)) // publishes the lane
	}
}

// drain frees what is under way. Only whoever may receive calls it.
func (w *wire) drain() {
	for _, l := range w.lanes[:w.used.Load()] {
		l.drain()
	}
}

// cable ties ports together: two of them, or one to itself. Its lock is also
// that of the ports' state, because what becomes of the packets under way
// depends on both.
type cable struct {
	mu   sync.Mutex
	ends []*end // two, or one
}

// end is where a port is plugged in.
type end struct {
	name string
	in   *wire
	port *ringPort // nil: nothing is plugged in
}

func newCable(size int, names ...string) *cable {
	c := new(cable)
	for _, name := range names {
		c.ends = append(c.ends, &end{name: name, in: newWire(size)})
	}
	return c
}

// plug makes the port at an end.
func (c *cable) plug(at int, devargs string) *ringPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	near, far := c.ends[at], c.ends[(at+1)%len(c.ends)]
	near.port = newPort(c, near, far, devargs)
	return near.port
}

// plugged reports whether a port is at the end of that name.
func (c *cable) plugged(e *end) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.port != nil
}

// running reports whether the port at e is started. The caller has the lock.
func (e *end) running() bool { return e.port != nil && e.port.started }

// tell lets the port at e know that the link changed. The caller has the lock,
// which is why the port's listener gets a goroutine.
func (e *end) tell() {
	if e.running() && e.port.listener != nil {
		go e.port.listener(port.LinkChange)
	}
}
