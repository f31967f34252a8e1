package port

import "vionet/mbuf"

// Addressing says which device addresses (IOVA) a device can use: what the
// memory for it must be made with.
type Addressing struct {
	Mode   mbuf.IOVAMode    // where they come from
	Ranges []mbuf.AddrRange // for mbuf.IOVARanges
}

// Join says which addresses serve another device as well: physical ones as soon
// as one of the two wants them. The zero Addressing asks for nothing.
func (a Addressing) Join(b Addressing) Addressing {
	a.Mode = max(a.Mode, b.Mode)
	if b.Mode == mbuf.IOVARanges {
		a.Ranges = b.Ranges
	}
	return a
}

// QueueSetup is a virtqueue as the device must know it. The three areas have
// the names of virtio 1.2, section 2.6; each is both an address in this
// process and a device address.
type QueueSetup struct {
	Index int // number of the virtqueue
	Size  int // descriptors
	Desc  mbuf.Zone
	Avail mbuf.Zone
	Used  mbuf.Zone
	// Interrupt asks for interrupts of this queue; see the transport's
	// QueueEvent.
	Interrupt bool
	// Base is the index of the first available entry that the device shall
	// look at; 0 for a fresh ring.
	Base uint16
}

// Kicker tells the device that a virtqueue has new entries (section 2.9). The
// position is where the next one will be made available, as NOTIFICATION_DATA
// puts it: the available index, or the offset in a packed virtqueue with the
// wrap counter in bit 15.
type Kicker interface {
	Kick(position uint16)
}
