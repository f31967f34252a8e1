package driveronly

import (
	"fmt"
	"strings"

	"vionet/bench/report"
)

// simplest is what the simple paths may cost at most, in nanoseconds a packet in bursts
// of 32.
const simplest = 8

// base is what loops are compared with.
var base = Loop{Burst: 32, RingSize: 256, Pairs: 1, Segments: 1}

// loops is the cost of the driver without a program around it, path by path, each
// beside the split ring's simple path of the same direction.
func loops() Table {
	t := Table{report: report.Table{
		Name: "driver-loops", Title: "Cost of vionet's driver alone, by path", Unit: report.Nanoseconds,
		Note: "A loop that takes buffers and sends them, or receives and frees them, in bursts of 32, against a back end that touches no data; " +
			"each beside the simple path over a split virtqueue. Cycles are those of the time-stamp counter.",
	}}
	for _, receive := range []bool{false, true} {
		for _, v := range virtqueues {
			for _, path := range []string{"simple", "standard", "mergeable"} {
				if path == "mergeable" && !receive {
					continue
				}
				l := base
				l.Receive, l.Packed, l.InOrder = receive, v.packed, v.inOrder
				l.Standard, l.Mergeable = path == "standard", path == "mergeable"
				c := l.beside("loop")
				if path == "simple" {
					c.Bar = report.Bar{Value: simplest}
				}
				t.cells = append(t.cells, c)
			}
		}
	}
	return t
}

// growth varies one thing at a time.
func growth() Table {
	t := Table{report: report.Table{
		Name: "driver-growth", Title: "Cost of vionet's driver alone, as one thing grows", Unit: report.Nanoseconds,
		Note: "The loop over a split virtqueue, each beside a ring of 256 descriptors, bursts of 32, one queue pair, one segment, and buffers that were just freed.",
	}}
	for _, receive := range []bool{false, true} {
		vary := func(set func(*Loop, int), values ...int) {
			for _, v := range values {
				l := base
				l.Receive = receive
				set(&l, v)
				t.cells = append(t.cells, l.beside("growth"))
			}
		}
		vary(func(l *Loop, n int) { l.RingSize = n }, 64, 512, 1024)
		vary(func(l *Loop, n int) { l.Burst = n }, 1, 4, 8, 64)
		vary(func(l *Loop, n int) { l.Pairs = n }, 2, 4)
		vary(func(l *Loop, n int) { l.Buffers = n }, 1024, 4096, 16384)
		if !receive {
			vary(func(l *Loop, n int) { l.Segments = n }, 2, 4)
		}
	}
	return t
}

// beside is a cell of a loop and of the simplest in its direction.
func (l Loop) beside(what string) cell {
	simple := base
	simple.Receive = l.Receive
	at := l.coordinates()
	c := cell{
		Cell:    report.Cell{At: at, Against: report.Contestant{Name: "base"}, Of: report.Contestant{Name: "this"}},
		pairs:   l.Pairs,
		against: simple.front(), of: l.front(),
	}
	c.Name = strings.Join(append([]string{pathName(what, at)}, l.differences(simple)...), "/")
	return c
}

// front is the command line of the loop.
func (l Loop) front() front {
	return func(w Where, socket string) []string {
		l.Socket = socket
		return append([]string{w.Vionet}, l.Arguments()...)
	}
}

func (l Loop) coordinates() report.Coordinates {
	at := report.Coordinates{
		Topology: "transmit", Ring: "split", InOrder: l.InOrder, Mergeable: l.Mergeable,
		Queues: l.Pairs, Burst: l.Burst, RingSize: l.RingSize, Segments: l.Segments, Buffers: l.Buffers,
	}
	if l.Packed {
		at.Ring = "packed"
	}
	path := &at.Tx
	if l.Receive {
		at.Topology, path = "receive", &at.Rx
	}
	switch {
	case l.Standard:
		*path = "standard"
	case l.Mergeable:
		*path = "mergeable"
	default:
		*path = "simple"
	}
	return at
}

// differences names what is not as in the other loop, but for rings and paths.
func (l Loop) differences(other Loop) (words []string) {
	for _, d := range []struct {
		name      string
		of, other int
	}{
		{"ring", l.RingSize, other.RingSize}, {"burst", l.Burst, other.Burst}, {"pairs", l.Pairs, other.Pairs},
		{"buffers", l.Buffers, other.Buffers}, {"segments", l.Segments, other.Segments},
	} {
		if d.of != d.other {
			words = append(words, fmt.Sprintf("%s%d", d.name, d.of))
		}
	}
	return words
}
