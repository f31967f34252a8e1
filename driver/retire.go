package driver

import (
	"errors"
	"fmt"

	"vionet/port"
)

// retired is a queue that was taken from the port, and whose rings and buffers
// the device may still use.
type retired interface {
	// settle frees what the device is done with, and returns the number of
	// buffers that it still owns.
	settle() int
	// release frees everything. The device was reset, or reaches the memory no
	// more.
	release()
}

// endQueues takes the queues from the port and resets the device. When that
// fails, the device may go on to read and write: what it owns is kept, the rings
// among it, until a reset succeeds or the transport was closed, and the error
// says how much that is.
func (d *Device) endQueues() error {
	d.retireQueues()
	err := d.reset()
	owned := 0
	for _, q := range d.retired {
		owned += q.settle()
	}
	if owned > 0 {
		err = fmt.Errorf("%w: %d buffers are still with the device and held back: start the port again or close it to have them", err, owned)
	}
	return err
}

// retireQueues takes the queues from the port.
func (d *Device) retireQueues() {
	for _, q := range d.rx {
		q.retire()
		d.retired = append(d.retired, q)
	}
	for _, q := range d.tx {
		q.retire()
		d.retired = append(d.retired, q)
	}
	if c := d.control.queue.Swap(nil); c != nil {
		c.end()
		d.retired = append(d.retired, c)
	}
	d.past = addStats(d.past, d.queueStats())
	d.rx, d.tx = nil, nil
}

// reset resets the device. One that is quiet then, or gone, owns nothing.
func (d *Device) reset() error {
	err := d.transport.Reset(d.opts.ResetTimeout)
	if err == nil || errors.Is(err, port.ErrGone) {
		d.releaseRetired()
	}
	if err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}

func (d *Device) releaseRetired() {
	for _, q := range d.retired {
		q.release()
	}
	d.retired = nil
}
