package driver

import (
	"fmt"
	"time"

	"vionet/port"
	"vionet/virtio"
)

// QueueResetter is a Transport that can reset one virtqueue of a running device
// (RING_RESET, virtio 1.2, section 2.6.1). SetupQueue brings it back.
type QueueResetter interface {
	ResetQueue(index int, timeout time.Duration) error
}

// ResetRxQueue resets one receive queue of the started port and sets it up
// again, while the others go on: the way back for a queue whose device broke a
// rule. Packets that it held are dropped. No burst of that queue may be under
// way. Without RING_RESET the error wraps port.ErrNotSupported; Restart does
// it then, for the whole port.
func (d *Device) ResetRxQueue(i int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.holdXSKs()()
	if err := d.resetQueue(virtio.RxQueue(i), i < len(d.rx)); err != nil {
		return err
	}
	q := d.rx[i]
	q.retire()
	q.release()
	if err := d.setupRxQueue(q, i); err != nil {
		return q.giveUp(fmt.Errorf("%s: receive queue %d: %w", d.Name(), i, err))
	}
	q.kicker.Kick(q.ring.Position())
	return nil
}

// ResetTxQueue does for a transmit queue what ResetRxQueue does.
func (d *Device) ResetTxQueue(i int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.holdXSKs()()
	if err := d.resetQueue(virtio.TxQueue(i), i < len(d.tx)); err != nil {
		return err
	}
	q := d.tx[i]
	q.release()
	if err := d.setupTxQueue(q, i); err != nil {
		return q.giveUp(fmt.Errorf("%s: transmit queue %d: %w", d.Name(), i, err))
	}
	return nil
}

// giveUp makes a queue that was reset, and could not be set up again, one that
// is broken: its ring has no memory any more. It returns err, which Err gives
// from then on.
func (v *virtqueue) giveUp(err error) error {
	v.ring.Fail("queue", "it was not set up again", 0)
	v.reportOnce(err)
	return err
}

// resetQueue resets virtqueue index, which exists as far as the caller knows.
func (d *Device) resetQueue(index int, exists bool) error {
	if err := d.mustBe(started, "reset a queue"); err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("%s: reset virtqueue %d: %w: there is no such queue", d.Name(), index, port.ErrInvalid)
	}
	r, ok := d.transport.(QueueResetter)
	if !ok || !d.accepted.Has(virtio.RingReset) {
		return fmt.Errorf("%s: reset virtqueue %d: %w: RING_RESET was not negotiated", d.Name(), index, port.ErrNotSupported)
	}
	if err := r.ResetQueue(index, d.opts.ResetTimeout); err != nil {
		return fmt.Errorf("%s: reset virtqueue %d: %w", d.Name(), index, err)
	}
	return nil
}
