package virtio

import "fmt"

// ControlCommand is a command of the control virtqueue (section 5.1.6.5): its
// class, in the upper byte, and its number within the class.
type ControlCommand uint16

// Commands. Each needs CTRL_VQ and the feature named beside it; its data is
// what follows. All numbers are little-endian.
const (
	// CTRL_RX, and CTRL_RX_EXTRA from CtrlRxAllUni on: u8, 1 for on.
	CtrlRxPromisc  ControlCommand = 0x0000
	CtrlRxAllMulti ControlCommand = 0x0001
	CtrlRxAllUni   ControlCommand = 0x0002
	CtrlRxNoMulti  ControlCommand = 0x0003
	CtrlRxNoUni    ControlCommand = 0x0004
	CtrlRxNoBcast  ControlCommand = 0x0005
	// CTRL_RX: twice u32 count and count addresses, the unicast ones first.
	CtrlMACTableSet ControlCommand = 0x0100
	// CTRL_RX and CTRL_MAC_ADDR: an address.
	CtrlMACAddrSet ControlCommand = 0x0101
	// CTRL_VLAN: u16 id.
	CtrlVLANAdd ControlCommand = 0x0200
	CtrlVLANDel ControlCommand = 0x0201
	// GUEST_ANNOUNCE: nothing.
	CtrlAnnounceAck ControlCommand = 0x0300
	// MQ: u16 queue pairs.
	CtrlMQPairsSet ControlCommand = 0x0400
	// RSS: u32 hash types, u16 table length - 1, u16 queue of packets without
	// a hash, u16 queue for each entry of the table, u16 transmit queues, u8
	// key length, key.
	CtrlMQRSSConfig ControlCommand = 0x0401
	// HASH_REPORT: u32 hash types, 8 reserved bytes, u8 key length, key.
	CtrlMQHashConfig ControlCommand = 0x0402
	// CTRL_GUEST_OFFLOADS: u64 set of feature bits.
	CtrlGuestOffloadsSet ControlCommand = 0x0500
	// NOTF_COAL: u32 packets, u32 microseconds.
	CtrlNotfCoalTxSet ControlCommand = 0x0600
	CtrlNotfCoalRxSet ControlCommand = 0x0601
)

var controlNames = map[ControlCommand]string{
	CtrlRxPromisc: "RX_PROMISC", CtrlRxAllMulti: "RX_ALLMULTI", CtrlRxAllUni: "RX_ALLUNI",
	CtrlRxNoMulti: "RX_NOMULTI", CtrlRxNoUni: "RX_NOUNI", CtrlRxNoBcast: "RX_NOBCAST",
	CtrlMACTableSet: "MAC_TABLE_SET", CtrlMACAddrSet: "MAC_ADDR_SET",
	CtrlVLANAdd: "VLAN_ADD", CtrlVLANDel: "VLAN_DEL",
	CtrlAnnounceAck: "ANNOUNCE_ACK",
	CtrlMQPairsSet:  "MQ_VQ_PAIRS_SET", CtrlMQRSSConfig: "MQ_RSS_CONFIG", CtrlMQHashConfig: "MQ_HASH_CONFIG",
	CtrlGuestOffloadsSet: "GUEST_OFFLOADS_SET",
	CtrlNotfCoalTxSet:    "NOTF_COAL_TX_SET", CtrlNotfCoalRxSet: "NOTF_COAL_RX_SET",
}

// Class is the command's class.
func (c ControlCommand) Class() uint8 { return uint8(c >> 8) }

// Number is the command's number within its class.
func (c ControlCommand) Number() uint8 { return uint8(c) }

// String gives the command's name in the specification, without the prefix
// VIRTIO_NET_CTRL_.
func (c ControlCommand) String() string {
	if name, ok := controlNames[c]; ok {
		return name
	}
	return fmt.Sprintf("command %d of class %d", c.Number(), c.Class())
}

// Values of the byte in which the device answers a command.
const (
	CtrlOK  uint8 = 0
	CtrlErr uint8 = 1
)

// Bounds of max_virtqueue_pairs in the configuration space (section 5.1.4.1).
const (
	MinQueuePairs = 1
	MaxQueuePairs = 0x8000
)

// ControlQueue is the virtqueue number of the control queue: behind all the
// pairs that the device has once MQ or RSS is negotiated, behind the first one
// otherwise (section 5.1.2). maxPairs is max_virtqueue_pairs.
func ControlQueue(negotiated Features, maxPairs int) int {
	if negotiated&(NetMQ|NetRSS) == 0 {
		maxPairs = 1
	}
	return 2 * maxPairs
}
