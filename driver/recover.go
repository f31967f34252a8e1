package driver

import (
	"errors"
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

// noticeTrouble tells the application when the device says that it needs a
// reset (virtio 1.2, section 2.1.2), or that it is gone. It does nothing more:
// who drives the queues must stop first, and then calls Restart or Close.
func (d *Device) noticeTrouble() {
	status, err := d.startedStatus()
	switch {
	case errors.Is(err, port.ErrGone):
		d.log.Error(fmt.Sprintf("virtio: the device of port %d was removed: close the port", d.opts.ID))
		d.event(port.Removed)
	case err == nil && status.Has(virtio.StatusNeedsReset):
		d.log.Error(fmt.Sprintf("virtio: the device of port %d needs a reset: stop and start the port", d.opts.ID))
		d.event(port.NeedsReset)
	}
}

// noticeLink tells the application when the link went up or down.
func (d *Device) noticeLink() {
	up := d.Link().Up
	if d.linkUp.Swap(up) != up {
		d.event(port.LinkChange)
	}
}

// startedStatus reads the device's status, if the port is started.
func (d *Device) startedStatus() (virtio.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != started {
		return 0, nil
	}
	return d.transport.Status()
}

// Restart stops the port and starts it again with the same configuration, and
// with the filters and modes that were set: the way back from a broken queue or
// a device that needs a reset. No burst may be under way.
func (d *Device) Restart() error {
	if err := d.Stop(); err != nil {
		// A device that can't even be reset in time may be by the next start.
		d.log.Warn(err.Error())
	}
	return d.Start()
}
