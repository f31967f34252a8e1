package engine

import (
	"sync/atomic"

	"vionet/mbuf"
)

// Direction is a packet's way through a port.
type Direction int

// Directions.
const (
	Rx Direction = iota
	Tx
)

// String gives "rx" or "tx".
func (d Direction) String() string {
	if d == Tx {
		return "tx"
	}
	return "rx"
}

// Viewer is shown each burst that a port has received or is about to send. It
// keeps nothing of pkts, changes nothing, and does not wait: the packets stand
// still until it returns. Any number of goroutines call it at a time.
type Viewer func(d Direction, port, queue int, pkts []*mbuf.Buf)

// Tap is where a viewer can be put onto streams, also while packets pass. One
// that nobody looks at costs a stream one load of a pointer for each burst.
type Tap struct{ viewer atomic.Pointer[Viewer] }

// Set puts a viewer in the place of the one before; nil: none. The one before
// may be called for a moment longer.
func (t *Tap) Set(v Viewer) {
	if v == nil {
		t.viewer.Store(nil)
		return
	}
	t.viewer.Store(&v)
}

func (t *Tap) show(d Direction, port, queue int, pkts []*mbuf.Buf) {
	if v := t.viewer.Load(); v != nil {
		(*v)(d, port, queue, pkts)
	}
}
