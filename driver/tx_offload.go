package driver

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Offsets of the checksum field within the L4 headers.
const (
	udpChecksumOffset = 6
	tcpChecksumOffset = 16
)

const (
	protoTCP = 6
	protoUDP = 17
)

// offload does what b's flags ask for, as far as it is the driver's part: it
// inserts the VLAN tag, puts the pseudo-header's sum where the device starts
// from, and fills in hdr (virtio 1.2, section 5.1.6.2). It reports whether the
// request is one that this queue can serve.
func (q *TxQueue) offload(b *mbuf.Buf, hdr *virtio.NetHeader) bool {
	if !q.permits(b.Flags) {
		return false
	}
	if b.Flags&mbuf.TxVLAN != 0 && !insertVLAN(b) {
		return false
	}
	if b.Flags&mbuf.TxL4Mask == 0 {
		return true
	}
	return requestChecksum(b, hdr) && (b.Flags&mbuf.TxTSO == 0 || requestTSO(b, hdr))
}

// permits reports whether every request in flags was enabled at Start.
func (q *TxQueue) permits(flags mbuf.Flags) bool {
	enabled := func(flag mbuf.Flags, o port.TxOffloads) bool {
		return flags&flag == 0 || q.offloads&o != 0
	}
	return enabled(mbuf.TxVLAN, port.TxVLANInsert) &&
		enabled(mbuf.TxTCPChecksum, port.TxTCPCksum) &&
		enabled(mbuf.TxUDPChecksum, port.TxUDPCksum) &&
		enabled(mbuf.TxTSO, port.TxTCPTSO)
}

// requestChecksum asks the device for the L4 checksum of b. The headers must
// lie in the first segment.
func requestChecksum(b *mbuf.Buf, hdr *virtio.NetHeader) bool {
	proto, field := byte(protoTCP), tcpChecksumOffset
	if b.Flags&mbuf.TxUDPChecksum != 0 {
		proto, field = protoUDP, udpChecksumOffset
	}
	l2, l3 := int(b.L2Len), int(b.L3Len)
	start := l2 + l3
	frame := b.Bytes()
	if start+field+2 > len(frame) {
		return false
	}
	sum, ok := pseudoSum(frame[l2:start], b.Flags, proto, b.PacketLen()-start)
	if !ok {
		return false
	}
	binary.BigEndian.PutUint16(frame[start+field:], sum)
	hdr.Flags = virtio.HdrNeedsCSum
	hdr.CSumStart, hdr.CSumOffset = uint16(start), uint16(field)
	return true
}

// requestTSO asks the device to segment b.
func requestTSO(b *mbuf.Buf, hdr *virtio.NetHeader) bool {
	headers := int(b.L2Len) + int(b.L3Len) + int(b.L4Len)
	if b.SegSize == 0 || b.L4Len == 0 || b.Flags&mbuf.TxUDPChecksum != 0 || headers > b.Len() {
		return false
	}
	hdr.GSOType = virtio.GSOTCPv4
	if b.Flags&mbuf.TxIPv6 != 0 {
		hdr.GSOType = virtio.GSOTCPv6
	} else {
		fillIPv4Checksum(b.Bytes()[b.L2Len : b.L2Len+b.L3Len])
	}
	hdr.GSOSize, hdr.HdrLen = b.SegSize, uint16(headers)
	return true
}

// fillIPv4Checksum completes the checksum of an IPv4 header: a segmented
// packet's headers are made from it.
func fillIPv4Checksum(ip []byte) {
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^fold(sumWords(ip)))
}

// Places of the addresses in the IP headers.
const (
	ipv4MinLen = 20
	ipv4Source = 12
	ipv6MinLen = 40
	ipv6Source = 8
)

// pseudoSum is the one's complement sum of the pseudo-header of an L4 packet
// of length bytes, not inverted. The length is the true one, not the 16 bits
// of the IP header, which a large segmented packet overflows.
func pseudoSum(ip []byte, flags mbuf.Flags, proto byte, length int) (uint16, bool) {
	var addrs []byte
	switch {
	case flags&mbuf.TxIPv6 != 0 && len(ip) >= ipv6MinLen:
		addrs = ip[ipv6Source:ipv6MinLen]
	case flags&mbuf.TxIPv4 != 0 && len(ip) >= ipv4MinLen:
		addrs = ip[ipv4Source:ipv4MinLen]
	default:
		return 0, false
	}
	return fold(sumWords(addrs) + uint64(proto) + uint64(length>>16) + uint64(length&0xffff)), true
}

// sumWords adds up the 16-bit words of b, whose length is even.
func sumWords(b []byte) uint64 {
	var sum uint64
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint64(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

// fold brings a sum of 16-bit words into one, carries added in.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
