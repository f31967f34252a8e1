package fakedev

import (
	"fmt"
	"sync/atomic"

	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// Queue is the device's side of one virtqueue. Its methods are the device's
// moves; one goroutine at a time may make them.
type Queue struct {
	dev   *Device
	setup port.QueueSetup
	ring  deviceRing
	kicks atomic.Uint64
	event *port.EventFD // nil in poll mode

	interrupts atomic.Uint64
}

// deviceRing is a virtqueue of either kind, seen by the device.
type deviceRing interface {
	// available is the number of chains that wait to be taken.
	available() int
	// take reads the next chain; there is one.
	take() (Chain, error)
	// put writes a used entry for the chain that was taken with that head, or
	// for any other head. Publish shows all that was put.
	put(head, length uint32)
	publish()
	// skip moves the place of the next used entry without writing: a lie.
	skip(n int)
	suppress(on bool)
	// wantsInterrupt reports whether the driver asked to hear of what was
	// published since the last call.
	wantsInterrupt() bool
}

func newQueue(d *Device, s port.QueueSetup, accepted virtio.Features) (*Queue, error) {
	q := &Queue{dev: d, setup: s}
	if accepted.Has(virtio.RingPacked) {
		q.ring = newPackedRing(s, d.memory.bytes, accepted.Has(virtio.EventIdx))
	} else {
		q.ring = newSplitRing(s, d.memory.bytes, accepted.Has(virtio.EventIdx))
	}
	if s.Interrupt {
		event, err := port.NewEventFD()
		if err != nil {
			return nil, err
		}
		q.event = event
	}
	return q, nil
}

// close ends the queue's event.
func (q *Queue) close() {
	if q.event != nil {
		q.event.Close()
	}
}

// Kick implements port.Kicker: it counts, also apart what comes too early.
func (q *Queue) Kick(uint16) {
	q.kicks.Add(1)
	if status, _ := q.dev.Status(); !status.Has(virtio.StatusDriverOK) {
		q.dev.earlyKicks.Add(1)
	}
}

// Kicks is how often the driver notified the device.
func (q *Queue) Kicks() int { return int(q.kicks.Load()) }

// Interrupts is how often the device interrupted the driver.
func (q *Queue) Interrupts() int { return int(q.interrupts.Load()) }

// Size is the number of descriptors.
func (q *Queue) Size() int { return q.setup.Size }

// Buffer is one piece of a chain.
type Buffer struct {
	Addr  uint64 // of the device
	Bytes []byte // nil when the address was never mapped
	Flags uint16 // of the descriptor
}

// Chain is what the driver made available under one head.
type Chain struct {
	Head    uint16
	Buffers []Buffer
}

// Readable is the content of all pieces that the device reads, in one slice.
func (c Chain) Readable() []byte {
	var all []byte
	for _, b := range c.Buffers {
		if b.Flags&ring.DescWrite == 0 {
			all = append(all, b.Bytes...)
		}
	}
	return all
}

// Available is the number of chains that wait to be taken.
func (q *Queue) Available() int { return q.ring.available() }

// Take takes the next available chain. The device owns it until Use. It fails
// when nothing is there or when the driver's chain makes no sense.
func (q *Queue) Take() (Chain, error) {
	if q.Available() == 0 {
		return Chain{}, fmt.Errorf("virtqueue %d: nothing is available", q.setup.Index)
	}
	c, err := q.ring.take()
	if err != nil {
		return Chain{}, fmt.Errorf("virtqueue %d: %w", q.setup.Index, err)
	}
	return c, nil
}

// Use gives the chain with that head back, with length bytes written, and
// shows the driver at once. Any head and length may be given, true or not.
func (q *Queue) Use(head, length uint32) {
	q.PutUsed(head, length)
	q.Publish()
}

// PutUsed writes the next used entry without showing it.
func (q *Queue) PutUsed(head, length uint32) { q.ring.put(head, length) }

// Publish shows the driver the used entries that were put, and interrupts it
// if it asked for that.
func (q *Queue) Publish() {
	q.ring.publish()
	if q.event != nil && q.ring.wantsInterrupt() {
		q.interrupts.Add(1)
		q.event.Signal()
	}
}

// SkipUsed moves the used index without writing entries: a lie.
func (q *Queue) SkipUsed(n int) {
	q.ring.skip(n)
	q.Publish()
}

// SuppressKicks tells the driver whether notifications are wanted (virtio 1.2,
// sections 2.7.10 and 2.8.10).
func (q *Queue) SuppressKicks(on bool) {
	q.ring.suppress(on)
	q.Publish()
}
