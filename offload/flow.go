package offload

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FlowHash is a number that the frames of a flow, in one direction, have in common:
// it is made of addresses, protocol and the ports of TCP and UDP, and is the same
// everywhere and always. ok is false when the frame is neither IPv4 nor IPv6, or is
// cut off.
//
// The fragments of a packet belong together, and only the first of them has ports:
// those of fragments do not count. Neither do those behind extension headers of IPv6,
// or a VLAN tag. The hash is no defence against senders who want their flows to have
// the same one.
func FlowHash(frame []byte) (hash uint32, ok bool) {
	if len(frame) < 14 {
		return 0, false
	}
	ip := frame[14:]
	switch etherType := binary.BigEndian.Uint16(frame[12:]); {
	case etherType == 0x0800 && len(ip) >= 20 && ip[0]>>4 == 4:
		fragment := binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 // more to come, or not the first
		return tuple(ip[12:20], ip[9], ip[min(4*int(ip[0]&15), len(ip)):], !fragment), true
	case etherType == 0x86dd && len(ip) >= 40:
		return tuple(ip[8:40], ip[6], ip[40:], true), true
	}
	return 0, false
}

// tuple is the number of addresses, protocol and, where there are any, ports.
func tuple(addresses []byte, protocol byte, payload []byte, ports bool) uint32 {
	sum := crc32.Update(uint32(protocol), castagnoli, addresses)
	const tcp, udp = 6, 17
	if ports && (protocol == tcp || protocol == udp) && len(payload) >= 4 {
		sum = crc32.Update(sum, castagnoli, payload[:4])
	}
	return sum
}
