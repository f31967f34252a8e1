package driver

import (
	"encoding/binary"

	"vionet/mbuf"
)

const (
	etherAddrsLen = 12 // destination and source
	etherTypeVLAN = 0x8100
	vlanTagLen    = 4
)

// insertVLAN puts the tag with b.VLAN behind the Ethernet addresses and takes
// the request back, so that a packet sent twice is tagged once. The first
// segment holds the addresses and has room in front.
func insertVLAN(b *mbuf.Buf) {
	b.Prepend(vlanTagLen)
	frame := b.Bytes()
	copy(frame, frame[vlanTagLen:vlanTagLen+etherAddrsLen])
	binary.BigEndian.PutUint16(frame[etherAddrsLen:], etherTypeVLAN)
	binary.BigEndian.PutUint16(frame[etherAddrsLen+2:], b.VLAN)
	b.Flags &^= mbuf.TxVLAN
	b.L2Len += vlanTagLen
}

// stripVLAN takes the outer tag out of a received frame into b.VLAN.
func stripVLAN(b *mbuf.Buf) {
	frame := b.Bytes()
	if len(frame) < etherAddrsLen+vlanTagLen || binary.BigEndian.Uint16(frame[etherAddrsLen:]) != etherTypeVLAN {
		return
	}
	b.VLAN = binary.BigEndian.Uint16(frame[etherAddrsLen+2:])
	b.Flags |= mbuf.RxVLANStripped
	copy(frame[vlanTagLen:], frame[:etherAddrsLen])
	b.TrimFront(vlanTagLen)
	if b.Flags&mbuf.RxL4None != 0 {
		b.CSumStart -= min(b.CSumStart, vlanTagLen)
	}
}
