package engine

import (
	"encoding/binary"

	"vionet/mbuf"
)

// ICMPEcho answers ARP requests, ICMP and ICMPv6 echo requests and IPv6
// neighbour solicitations, whatever address they ask for, and frees all else.
// One VLAN tag or more stay as they are.
var ICMPEcho = &Engine{Name: "icmpecho", Forward: forwardICMPEcho}

func forwardICMPEcho(s *Stream) int {
	pkts := s.receiveOwn()
	if len(pkts) == 0 {
		return 0
	}
	replies := 0
	for i, b := range pkts {
		if s.reply(b) {
			pkts[replies], pkts[i] = pkts[i], pkts[replies]
			replies++
		}
	}
	s.cache.Put(pkts[replies:])
	if replies > 0 {
		s.send(s.plainRequests(pkts[:replies]))
	}
	return len(pkts)
}

// reply makes the answer out of a request, and reports whether it was one.
func (s *Stream) reply(b *mbuf.Buf) bool {
	frame := b.Bytes()
	h, isIP := parse(frame, b.PacketLen())
	switch {
	case h.etherType == etherARP:
		return s.replyARP(frame, h.ip())
	case !isIP || h.fragment || h.l4Size < icmpLen || len(frame) < h.payload()+icmpLen:
		return false
	case !h.ipv6 && h.next == protoICMP:
		return s.replyEcho(frame, &h, 8, 0)
	case h.ipv6 && h.next == protoICMPv6 && frame[h.payload()] == neighbourSolicitation:
		return s.advertise(b, &h)
	case h.ipv6 && h.next == protoICMPv6:
		return s.replyEcho(frame, &h, 128, 129)
	}
	return false
}

// arpLen is the length in bytes of an ARP packet for Ethernet and IPv4.
const arpLen = 28

// replyARP answers an ARP request (RFC 826) at offset at.
func (s *Stream) replyARP(frame []byte, at int) bool {
	if len(frame) < at+arpLen {
		return false
	}
	arp := frame[at : at+arpLen]
	const ethernetIPv4Request = 0x0001_0800_0604_0001
	if binary.BigEndian.Uint64(arp) != ethernetIPv4Request {
		return false
	}
	s.turnRound(frame)
	arp[7] = 2 // reply
	copy(arp[18:24], arp[8:14])
	copy(arp[8:14], s.Source[:])
	asker := [4]byte(arp[14:18])
	copy(arp[14:18], arp[24:28])
	copy(arp[24:28], asker[:])
	return true
}

// turnRound addresses the frame from the Tx port to its sender.
func (s *Stream) turnRound(frame []byte) {
	copy(frame[0:6], frame[6:12])
	copy(frame[6:12], s.Source[:])
}

// replyEcho makes the answer out of an echo request, ICMP or ICMPv6. Its
// checksum is brought up to date, not made anew: damage to the request stays
// visible to its sender.
func (s *Stream) replyEcho(frame []byte, h *headers, request, answer byte) bool {
	icmp := frame[h.payload():]
	if icmp[0] != request || icmp[1] != 0 {
		return false
	}
	sum := binary.BigEndian.Uint16(icmp[2:])
	sum = adjust(sum, []byte{request, 0}, []byte{answer, 0})
	h.swapIP(frame)
	ip := frame[h.ip():h.payload()]
	if h.ipv6 && ip[8] == 0xff {
		was := [16]byte(ip[8:24])
		linkLocal(ip[8:24], s.Source)
		sum = adjust(sum, was[:], ip[8:24])
	}
	if !h.ipv6 && ip[12]>>4 == 0xe {
		neighbour(ip[12:16], ip[16:20])
		fillIPv4(frame, h)
	}
	swapMACs(frame)
	if frame[6]&1 != 0 { // it went to a group
		copy(frame[6:12], s.Source[:])
	}
	icmp[0] = answer
	putChecksum(icmp[2:], sum)
	return true
}

// neighbour puts an address into src that is next to dst, for an answer to what
// went to a group.
func neighbour(src, dst []byte) {
	copy(src, dst)
	if dst[3]&3 == 1 {
		src[3] = dst[3]&^3 | 2
	} else {
		src[3] = dst[3]&^3 | 1
	}
}

// linkLocal puts the IPv6 link-local address of a station into addr (RFC 4291,
// appendix A).
func linkLocal(addr []byte, mac [6]byte) {
	copy(addr, []byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
}

// Neighbour discovery (RFC 4861, section 4).
const (
	neighbourSolicitation  = 135
	neighbourAdvertisement = 136
	advertisementLen       = 32 // with the target's link-layer address
)

// advertise answers a neighbour solicitation: the target is the Tx port. A
// question without a sender is a station's test whether its own new address is
// in use, and stays without answer.
func (s *Stream) advertise(b *mbuf.Buf, h *headers) bool {
	frame := b.Bytes()
	if h.l4Size < 24 || len(frame) < h.payload()+24 || [16]byte(frame[h.ip()+8:]) == [16]byte{} {
		return false
	}
	size := h.payload() + advertisementLen
	if missing := size - len(frame); missing > 0 && (b.Segments() > 1 || b.Append(missing) == nil) {
		return false
	}
	if b.Segments() == 1 {
		b.Truncate(size)
	}
	frame = b.Bytes()
	h.l4Size = advertisementLen

	s.turnRound(frame)
	ip, icmp := frame[h.ip():h.payload()], frame[h.payload():size]
	binary.BigEndian.PutUint16(ip[4:], uint16(h.l3-ipv6Len+advertisementLen))
	copy(ip[24:40], ip[8:24])
	copy(ip[8:24], icmp[8:24]) // the target
	const solicited, override = 0x40, 0x20
	copy(icmp, []byte{neighbourAdvertisement, 0, 0, 0, solicited | override, 0, 0, 0})
	copy(icmp[24:], []byte{2, 1}) // target link-layer address, 8 bytes
	copy(icmp[26:], s.Source[:])
	h.proto = protoICMPv6
	putChecksum(icmp[2:], l4Sum(b, h))
	return true
}
