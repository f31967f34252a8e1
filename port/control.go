package port

import (
	"net"

	"vionet/virtio"
)

// The interfaces of this file are what a Port may have beyond the methods of
// Port; a type assertion tells. A port that has the methods may be missing the
// device for them: the error then wraps ErrNotSupported and names the feature.
//
// They work on started and on stopped ports. What they set lasts until it is
// set anew: every Start gives it to the device again. On an error the settings
// are those from before.

// AllMulticaster can receive all multicast frames.
type AllMulticaster interface {
	// SetAllMulticast switches the reception of all multicast frames.
	SetAllMulticast(on bool) error
	// AllMulticast reports whether it is on.
	AllMulticast() bool
}

// RxMode is a kind of frames to receive or not, beside promiscuous and
// all-multicast mode.
type RxMode int

// Receive modes.
const (
	RxAllUnicast  RxMode = iota // all unicast frames
	RxNoMulticast               // no multicast, broadcast aside
	RxNoUnicast                 // no unicast
	RxNoBroadcast               // no broadcast
)

// RxModeSetter has the extra receive modes.
type RxModeSetter interface {
	SetRxMode(mode RxMode, on bool) error
}

// MACFilter receives frames for several stations.
type MACFilter interface {
	// MACs lists the port's unicast addresses, the primary one first.
	MACs() []net.HardwareAddr
	// AddMAC adds an address; one that is there already is no error.
	AddMAC(mac net.HardwareAddr) error
	// RemoveMAC takes an address away; one that is not there is no error. The
	// primary one stays.
	RemoveMAC(mac net.HardwareAddr) error
	// SetMAC changes the primary address.
	SetMAC(mac net.HardwareAddr) error
}

// MulticastFilter receives frames for chosen multicast groups.
type MulticastFilter interface {
	// Multicast lists the groups.
	Multicast() []net.HardwareAddr
	// SetMulticast replaces them.
	SetMulticast(groups []net.HardwareAddr) error
}

// VLANFilter receives tagged frames of chosen VLANs alone, once the offload
// RxVLANFilt is configured.
type VLANFilter interface {
	// SetVLANFilter lets the frames of VLAN id, 0 to 4095, in or not.
	SetVLANFilter(id uint16, on bool) error
}

// RSS says how received packets are spread over the queues: a Toeplitz hash
// under Key of the fields that Types name picks an entry of Table, which is a
// receive queue. Packets without a hash go to queue 0.
type RSS struct {
	Key   []byte   // 1 byte to RSSLimits.MaxKey
	Table []uint16 // its length is a power of two
	Types virtio.HashTypes
}

// RSSLimits are what a device can do of RSS.
type RSSLimits struct {
	MaxKey   int // bytes
	MaxTable int // entries, a power of two
	Types    virtio.HashTypes
}

// RSSSetter spreads packets as it is told, once Config.RSS asked for RSS. Key
// and types are also those of the hash that RxRSSHash reports.
type RSSSetter interface {
	// RSSLimits says what the device can do; without RSS it fails.
	RSSLimits() (RSSLimits, error)
	// RSS gives a copy of the settings.
	RSS() (RSS, error)
	// SetRSSKey changes the key: 1 to MaxKey bytes.
	SetRSSKey(key []byte) error
	// SetRSSTable changes the table. A change of the number of receive queues
	// undoes it.
	SetRSSTable(table []uint16) error
	// SetRSSTypes changes the types; those that the device lacks are left out.
	// With 0 every packet goes to queue 0.
	SetRSSTypes(types virtio.HashTypes) error
}

// Coalescing is how long a device may put an interrupt off: until MaxPackets
// packets are there, or MaxUsecs microseconds have gone by since the first. One
// of them 0: not at all.
type Coalescing struct {
	MaxPackets, MaxUsecs uint32
}

// Coalescer has interrupts that the device can put off.
type Coalescer interface {
	SetRxCoalescing(c Coalescing) error
	SetTxCoalescing(c Coalescing) error
}

// RxOffloadSetter can switch receive offloads while packets move. The offloads
// must be among those that the last Start enabled, which the next Start enables
// again.
type RxOffloadSetter interface {
	SetRxOffloads(active RxOffloads) error
}
