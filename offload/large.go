package offload

import (
	"encoding/binary"

	"vionet/mbuf"
)

// Places, sizes and values in the headers.
const (
	ipv4Len, ipv4Total, ipv4ID, ipv4Fragment = 20, 2, 4, 6
	ipv4Checksum, ipv4Addresses              = 10, 12
	ipv6Len, ipv6Payload, ipv6Addresses      = 40, 4, 8

	protoTCP                           = 6
	tcpLen, tcpSeq, tcpDataOffset      = 20, 4, 12
	tcpFlags, tcpChecksum              = 13, 16
	tcpFIN, tcpPSH, tcpCWR        byte = 1, 8, 0x80

	protoUDP                       = 17
	udpLen, udpLength, udpChecksum = 8, 4, 6
)

// large is a packet to be cut. Its numbers are bytes.
type large struct {
	udp, ipv6       bool
	ip, l4, headers int // where IP header, L4 header and payload begin
	size            int // payload of a segment
	payload         int
	vlan, port      uint16
	flags           mbuf.Flags // those that the segments keep
}

// readLarge reads what b asks for, and reports whether its headers agree.
func readLarge(b *mbuf.Buf) (l large, ok bool) {
	l = large{
		udp: b.Flags&mbuf.TxUSO != 0, ipv6: b.Flags&mbuf.TxIPv6 != 0,
		ip: int(b.L2Len), l4: int(b.L2Len) + int(b.L3Len), headers: int(b.L2Len) + int(b.L3Len) + int(b.L4Len),
		size: int(b.SegSize), vlan: b.VLAN, port: b.Port, flags: b.Flags & mbuf.TxVLAN,
	}
	l.payload = b.PacketLen() - l.headers
	oneKind := (b.Flags&mbuf.TxTSO != 0) != l.udp && (b.Flags&mbuf.TxIPv4 != 0) != l.ipv6
	if !oneKind || l.size == 0 || l.headers > b.Len() {
		return l, false
	}
	frame := b.Bytes()[:l.headers]
	const most = 0xffff // that a length field holds
	return l, l.segments() <= MaxSegments && l.headers-l.ip+l.length(0) <= most &&
		l.isIP(frame[l.ip:l.l4]) && l.isL4(frame[l.l4:])
}

// isIP reports whether ip is the header of a whole packet.
func (l *large) isIP(ip []byte) bool {
	if l.ipv6 {
		return len(ip) >= ipv6Len && ip[0]>>4 == 6
	}
	const fragment = 0x3fff // more fragments, or an offset
	return len(ip) >= ipv4Len && ip[0]>>4 == 4 && int(ip[0]&0xf)*4 == len(ip) &&
		binary.BigEndian.Uint16(ip[ipv4Fragment:])&fragment == 0
}

func (l *large) isL4(l4 []byte) bool {
	if l.udp {
		return len(l4) == udpLen
	}
	return len(l4) >= tcpLen && int(l4[tcpDataOffset]>>4)*4 == len(l4)
}

// segments is the number of segments: at least one, of a packet without
// payload.
func (l *large) segments() int { return max(buffers(l.payload, l.size), 1) }

// length is the payload of segment i.
func (l *large) length(i int) int { return min(l.payload-i*l.size, l.size) }

// finish turns the headers of b, which are copies of the large packet's, into
// those of segment i.
func (l *large) finish(b *mbuf.Buf, i int, leave mbuf.Flags) {
	frame := b.Bytes()
	ip, l4 := frame[l.ip:l.l4], frame[l.l4:l.headers]
	l.finishIP(ip, i, b.PacketLen()-l.ip)
	at, request := tcpChecksum, mbuf.TxTCPChecksum
	if l.udp {
		binary.BigEndian.PutUint16(l4[udpLength:], uint16(b.PacketLen()-l.l4))
		at, request = udpChecksum, mbuf.TxUDPChecksum
	} else {
		l.finishTCP(l4, i)
	}
	field := l4[at:]
	binary.BigEndian.PutUint16(field, 0)
	b.Flags, b.VLAN, b.Port = l.flags, l.vlan, l.port
	if leave&request != 0 {
		b.Flags |= request | l.family()
		b.L2Len, b.L3Len, b.L4Len = uint16(l.ip), uint16(l.l4-l.ip), uint16(l.headers-l.l4)
		return
	}
	binary.BigEndian.PutUint16(field, l.l4Checksum(b))
}

// finishIP sets the length of an IP packet of size bytes, and the number by
// which IPv4 tells packets apart.
func (l *large) finishIP(ip []byte, i, size int) {
	if l.ipv6 {
		binary.BigEndian.PutUint16(ip[ipv6Payload:], uint16(size-ipv6Len))
		return
	}
	binary.BigEndian.PutUint16(ip[ipv4Total:], uint16(size))
	binary.BigEndian.PutUint16(ip[ipv4ID:], binary.BigEndian.Uint16(ip[ipv4ID:])+uint16(i))
	binary.BigEndian.PutUint16(ip[ipv4Checksum:], 0)
	binary.BigEndian.PutUint16(ip[ipv4Checksum:], Checksum(ip))
}

// finishTCP sets the sequence number and the flags that speak of the whole
// packet: its end is that of the last segment, and the answer to congestion
// (RFC 3168, section 6.1.2) is given once.
func (l *large) finishTCP(tcp []byte, i int) {
	binary.BigEndian.PutUint32(tcp[tcpSeq:], binary.BigEndian.Uint32(tcp[tcpSeq:])+uint32(i*l.size))
	if i > 0 {
		tcp[tcpFlags] &^= tcpCWR
	}
	if i < l.segments()-1 {
		tcp[tcpFlags] &^= tcpFIN | tcpPSH
	}
}

func (l *large) family() mbuf.Flags {
	if l.ipv6 {
		return mbuf.TxIPv6
	}
	return mbuf.TxIPv4
}

// l4Checksum is the checksum over pseudo-header, L4 header and payload of the
// segment b, whose field holds zero.
func (l *large) l4Checksum(b *mbuf.Buf) uint16 {
	frame := b.Bytes()
	var s Sum
	if l.ipv6 {
		s.Add(frame[l.ip+ipv6Addresses : l.ip+ipv6Len])
	} else {
		s.Add(frame[l.ip+ipv4Addresses : l.ip+ipv4Len])
	}
	s.AddWord(uint16(b.PacketLen() - l.l4))
	if l.udp {
		s.AddWord(protoUDP)
	} else {
		s.AddWord(protoTCP)
	}
	s.Add(frame[l.l4:])
	for seg := b.Next(); seg != nil; seg = seg.Next() {
		s.Add(seg.Bytes())
	}
	if l.udp {
		return NonZero(s.Checksum())
	}
	return s.Checksum()
}
