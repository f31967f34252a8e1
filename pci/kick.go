package pci

// notifier is the notification register of a virtqueue (virtio 1.2, sections
// 4.1.5.2 and 4.1.4.8); it is a port.Kicker.
type notifier struct {
	notify registers
	offset int
	index  uint16
}

// Kick tells the device to look at the queue.
func (n *notifier) Kick(uint16) { n.notify.write16(n.offset, n.index) }

// dataNotifier is the same under NOTIFICATION_DATA (section 2.9): the device
// learns how far the queue goes without a look at its memory.
type dataNotifier struct {
	notify registers
	offset int
	index  uint16
}

// Kick tells the device to look at the queue as far as position.
func (n *dataNotifier) Kick(position uint16) {
	n.notify.write32(n.offset, uint32(n.index)|uint32(position)<<16)
}
