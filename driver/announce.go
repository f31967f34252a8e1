package driver

import (
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

// configChanged is called when the device's configuration has changed, on a
// goroutine of the transport's own that must not wait for the port.
func (d *Device) configChanged() {
	d.control.background.run(d.noticeLink)
	d.control.background.run(d.announce)
	d.control.background.run(d.noticeTrouble)
}

// announce passes a wish of the device on, that the port be announced to the
// network, and tells the device that it was heard (virtio 1.2, section
// 5.1.6.5.4). What to send only the application knows.
func (d *Device) announce() {
	d.control.announcing.Lock()
	defer d.control.announcing.Unlock()
	queue := d.announceWanted()
	if queue == nil {
		return
	}
	d.event(port.Announce)
	if err := queue.do(command{code: virtio.CtrlAnnounceAck}); err != nil {
		d.log.Warn(fmt.Sprintf("virtio: port %d: %v", d.opts.ID, err))
	}
}

// announceWanted gives the queue to answer on when the device wants to be
// announced, and nil otherwise.
func (d *Device) announceWanted() *controlQueue {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != started || !d.accepted.Has(virtio.NetGuestAnnounce) {
		return nil
	}
	status, err := readConfig16(d.transport, virtio.ConfigStatus)
	if err != nil || status&virtio.NetStatusAnnounce == 0 {
		return nil
	}
	return d.control.queue.Load()
}
