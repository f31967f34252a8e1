package pci

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"vionet/port"
)

// The MSI-X vectors of a device: configVector tells of changes of the
// configuration, queueVector+i of receive queue i. Transmit queues take vectors
// from the last one down, so that a device that has few of them still has them
// for reception. The control queue is polled.
const (
	configVector = 0
	queueVector  = 1
	maxVectors   = queueVector + 2*128 // a device has 128 queue pairs at most
)

// interruptEvents is who is told of what; on goroutines of the interrupts'.
type interruptEvents struct {
	changed func()          // the configuration changed
	gone    func()          // the device does not answer
	warn    func(err error) // something does not work that can be done without
}

// interrupts are what a device signals: by MSI-X vectors where it has them, or
// by one line for everything, told apart by the ISR status.
type interrupts struct {
	access  access
	regs    layout
	events  interruptEvents
	vectors int           // MSI-X vectors, 0 with a line
	config  *port.EventFD // of configVector, nil with a line
	line    interruptLine // nil with MSI-X
	// shared is the vector for changes of the configuration, and with a line
	// for queues too: noVector for a real line.
	shared uint16

	mu     sync.Mutex // over what follows, and over registers on the line's goroutine
	closed bool
	queues map[int]*port.EventFD // by virtqueue
}

// openInterrupts makes the interrupts of a function work, with all vectors
// that it has: their number can't grow later.
func openInterrupts(a access, regs layout, events interruptEvents) (*interrupts, error) {
	n := &interrupts{access: a, regs: regs, events: events, queues: map[int]*port.EventFD{}}
	var err error
	if n.vectors, err = a.enableVectors(maxVectors); err != nil {
		return nil, err
	}
	if n.vectors > 0 {
		err = n.openVectors()
	} else {
		err = n.openLine()
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (n *interrupts) openVectors() error {
	var err error
	if n.config, err = port.NewEventFD(); err != nil {
		return err
	}
	n.shared = configVector
	if err = n.access.route(configVector, n.config.FD()); err == nil {
		err = n.regs.setConfigVector(n.shared)
	}
	if err != nil {
		return join(err, n.config.Close())
	}
	go func() {
		for n.config.Wait(context.Background()) == nil {
			n.events.changed()
		}
	}()
	return nil
}

func (n *interrupts) openLine() error {
	var err error
	if n.line, err = n.access.openLine(); err != nil {
		return fmt.Errorf("the function has no MSI-X vectors, and its interrupt line: %w", err)
	}
	n.shared = n.line.vector()
	if err = n.regs.setConfigVector(n.shared); err == nil {
		err = n.line.unmask()
	}
	if err != nil {
		return join(err, n.line.close())
	}
	go n.serveLine()
	return nil
}

// serveLine tells whom the line's interrupts are for, until the line closes.
func (n *interrupts) serveLine() {
	for {
		if err := n.line.wait(); err != nil {
			n.lineEnded(err)
			return
		}
		causes, open := n.takeLine()
		switch {
		case !open:
			return
		case causes == isrGone:
			n.events.gone()
			return
		case causes&isrConfig != 0:
			n.events.changed()
		}
	}
}

// takeLine reads what the line has fired for, which takes the signal back,
// wakes the queues and lets the line fire again. open is false after close,
// when there are no registers to read any more.
func (n *interrupts) takeLine() (causes uint8, open bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return 0, false
	}
	causes = n.regs.interruptStatus()
	if causes == isrGone {
		return causes, true
	}
	if n.shared != noVector {
		causes = isrQueue | isrConfig // a vector tells nothing more
	}
	var errs []error
	if causes&isrQueue != 0 {
		// The status does not say which one.
		for _, e := range n.queues {
			errs = append(errs, e.Signal())
		}
	}
	if err := join(append(errs, n.line.unmask())...); err != nil {
		n.events.warn(err)
	}
	return causes, true
}

// lineEnded tells why nobody waits for the line any more, unless it was closed.
func (n *interrupts) lineEnded(err error) {
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	switch {
	case closed:
	case errors.Is(err, ErrGone):
		n.events.gone()
	default:
		n.events.warn(err)
	}
}

// vector is the place of a virtqueue's MSI-X vector, if there is one.
func (n *interrupts) vector(index int) int {
	if index%2 == 0 {
		return queueVector + index/2
	}
	return n.vectors - 1 - index/2
}

// unused reports whether vector v is there for virtqueue index.
func (n *interrupts) unused(v, index int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.queues {
		if other != index && n.vector(other) == v {
			return false
		}
	}
	return v >= queueVector && v < n.vectors
}

// addQueue makes the event of a virtqueue that is about to be set up, and
// gives the vector to set it up with.
func (n *interrupts) addQueue(index int) (vector uint16, err error) {
	if index < 0 {
		return 0, fmt.Errorf("interrupts of virtqueue %d: %w", index, port.ErrInvalid)
	}
	v := n.vector(index)
	if n.line == nil && !n.unused(v, index) {
		return 0, fmt.Errorf("interrupts of virtqueue %d: %w: the function has %d MSI-X vectors, one is needed for the configuration and one for each queue that interrupts: give QEMU's device vectors=%d or more",
			index, port.ErrNotSupported, n.vectors, index+2)
	}
	e, err := port.NewEventFD()
	if err != nil {
		return 0, err
	}
	if n.line == nil {
		if err := n.access.route(v, e.FD()); err != nil {
			return 0, join(err, e.Close())
		}
		vector = uint16(v)
	} else {
		vector = n.shared
	}
	n.mu.Lock()
	old := n.queues[index]
	n.queues[index] = e
	n.mu.Unlock()
	if old != nil {
		err = old.Close()
	}
	return vector, err
}

// removeQueue undoes addQueue; whoever waits is woken with an error.
func (n *interrupts) removeQueue(index int) error {
	n.mu.Lock()
	e := n.queues[index]
	delete(n.queues, index)
	n.mu.Unlock()
	if e == nil {
		return nil
	}
	var err error
	if n.line == nil {
		err = n.access.route(n.vector(index), -1)
	}
	return join(err, e.Close())
}

// queue is the event of a virtqueue, nil when it has none.
func (n *interrupts) queue(index int) *port.EventFD {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queues[index]
}

// removeQueues removes them all.
func (n *interrupts) removeQueues() error {
	n.mu.Lock()
	var indexes []int
	for index := range n.queues {
		indexes = append(indexes, index)
	}
	n.mu.Unlock()
	var errs []error
	for _, index := range indexes {
		errs = append(errs, n.removeQueue(index))
	}
	return join(errs...)
}

// afterReset does what a reset of the device, which forgot its vectors and
// queues, makes necessary. quiet says that the reset was successful.
func (n *interrupts) afterReset(quiet bool) {
	err := n.removeQueues()
	if quiet {
		err = join(err, n.regs.setConfigVector(n.shared))
	}
	if err != nil {
		n.events.warn(err)
	}
}

// close ends the goroutines and all waiting for queues. The access switches
// the vectors off when it closes.
func (n *interrupts) close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	err := n.removeQueues()
	if n.config != nil {
		return join(err, n.config.Close())
	}
	return join(err, n.line.close())
}
