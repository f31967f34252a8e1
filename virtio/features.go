package virtio

import (
	"fmt"
	"math/bits"
	"strings"
)

// Features is a set of device feature bits (virtio 1.2, section 2.2). Bit n
// of the set is feature number n, as a device offers it and a driver
// acknowledges it.
type Features uint64

// Feature bits of a network device (section 5.1.3).
const (
	NetCSUM              Features = 1 << 0
	NetGuestCSUM         Features = 1 << 1
	NetCtrlGuestOffloads Features = 1 << 2
	NetMTU               Features = 1 << 3
	NetMAC               Features = 1 << 5
	NetGuestTSO4         Features = 1 << 7
	NetGuestTSO6         Features = 1 << 8
	NetGuestECN          Features = 1 << 9
	NetGuestUFO          Features = 1 << 10
	NetHostTSO4          Features = 1 << 11
	NetHostTSO6          Features = 1 << 12
	NetHostECN           Features = 1 << 13
	NetHostUFO           Features = 1 << 14
	NetMrgRxbuf          Features = 1 << 15
	NetStatus            Features = 1 << 16
	NetCtrlVQ            Features = 1 << 17
	NetCtrlRx            Features = 1 << 18
	NetCtrlVLAN          Features = 1 << 19
	NetCtrlRxExtra       Features = 1 << 20
	NetGuestAnnounce     Features = 1 << 21
	NetMQ                Features = 1 << 22
	NetCtrlMACAddr       Features = 1 << 23
	NetNotfCoal          Features = 1 << 53
	NetGuestUSO4         Features = 1 << 54
	NetGuestUSO6         Features = 1 << 55
	NetHostUSO           Features = 1 << 56
	NetHashReport        Features = 1 << 57
	NetGuestHdrlen       Features = 1 << 59
	NetRSS               Features = 1 << 60
	NetRSCExt            Features = 1 << 61
	NetStandby           Features = 1 << 62
	NetSpeedDuplex       Features = 1 << 63
)

// Feature bits of every device type (section 6), with the two that only
// legacy interfaces have (section 6.3).
const (
	NotifyOnEmpty    Features = 1 << 24
	AnyLayout        Features = 1 << 27
	IndirectDesc     Features = 1 << 28
	EventIdx         Features = 1 << 29
	Version1         Features = 1 << 32
	AccessPlatform   Features = 1 << 33
	RingPacked       Features = 1 << 34
	InOrder          Features = 1 << 35
	OrderPlatform    Features = 1 << 36
	SRIOV            Features = 1 << 37
	NotificationData Features = 1 << 38
	RingReset        Features = 1 << 40
)

// Feature bits that a vhost-user back end and its front end have between
// themselves. They are never shown to the driver.
const (
	// VhostLogAll makes the back end note every page that it writes to.
	VhostLogAll Features = 1 << 26
	// VhostUserProtocolFeatures is the sign that protocol features are
	// negotiated.
	VhostUserProtocolFeatures Features = 1 << 30
)

var featureNames = [64]string{
	0: "CSUM", 1: "GUEST_CSUM", 2: "CTRL_GUEST_OFFLOADS", 3: "MTU", 5: "MAC",
	7: "GUEST_TSO4", 8: "GUEST_TSO6", 9: "GUEST_ECN", 10: "GUEST_UFO",
	11: "HOST_TSO4", 12: "HOST_TSO6", 13: "HOST_ECN", 14: "HOST_UFO",
	15: "MRG_RXBUF", 16: "STATUS", 17: "CTRL_VQ", 18: "CTRL_RX",
	19: "CTRL_VLAN", 20: "CTRL_RX_EXTRA", 21: "GUEST_ANNOUNCE", 22: "MQ",
	23: "CTRL_MAC_ADDR", 24: "NOTIFY_ON_EMPTY", 26: "LOG_ALL", 27: "ANY_LAYOUT",
	28: "INDIRECT_DESC", 29: "EVENT_IDX", 30: "PROTOCOL_FEATURES",
	32: "VERSION_1", 33: "ACCESS_PLATFORM", 34: "RING_PACKED",
	35: "IN_ORDER", 36: "ORDER_PLATFORM", 37: "SR_IOV",
	38: "NOTIFICATION_DATA", 40: "RING_RESET", 53: "NOTF_COAL",
	54: "GUEST_USO4", 55: "GUEST_USO6", 56: "HOST_USO", 57: "HASH_REPORT",
	59: "GUEST_HDRLEN", 60: "RSS", 61: "RSC_EXT", 62: "STANDBY",
	63: "SPEED_DUPLEX",
}

// Has reports whether every bit of want is in f.
func (f Features) Has(want Features) bool { return f&want == want }

// Names lists the bits of f by the names of the specification, lowest first;
// a bit without a name is given as "bit N".
func (f Features) Names() []string {
	var names []string
	for rest := uint64(f); rest != 0; rest &= rest - 1 {
		n := bits.TrailingZeros64(rest)
		name := featureNames[n]
		if name == "" {
			name = fmt.Sprintf("bit %d", n)
		}
		names = append(names, name)
	}
	return names
}

// String gives the names of f, separated by spaces, or "none".
func (f Features) String() string {
	if f == 0 {
		return "none"
	}
	return strings.Join(f.Names(), " ")
}
