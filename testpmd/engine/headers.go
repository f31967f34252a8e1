package engine

import "encoding/binary"

// Numbers of protocols.
const (
	etherIPv4 = 0x0800
	etherARP  = 0x0806
	etherTEB  = 0x6558 // an Ethernet frame in a tunnel
	etherVLAN = 0x8100
	etherIPv6 = 0x86dd
	etherQinQ = 0x88a8

	protoHopByHop = 0
	protoICMP     = 1
	protoIPv4     = 4
	protoTCP      = 6
	protoUDP      = 17
	protoIPv6     = 41
	protoGRE      = 47
	protoICMPv6   = 58
	protoDstOpts  = 60
	protoSCTP     = 132
	// protoNone marks a packet whose L4 header is not there to be worked
	// on: a fragment, an unknown protocol, a broken length.
	protoNone = -1
)

// Lengths in bytes of headers without options.
const (
	etherLen = 14
	vlanLen  = 4
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
	tcpLen   = 20
	sctpLen  = 12
	icmpLen  = 8
)

// headers says where the headers of a frame are, or those of a frame inside of
// a tunnel.
type headers struct {
	// at is where the L2 header starts: 0, or behind the outer IP header.
	at         int
	head       int // bytes of a tunnel's header, which are counted in l2
	l2, l3, l4 int // lengths in bytes; l3 with options or extension headers
	etherType  int // what the L2 header says that comes next
	ipv6       bool
	next       int // what the IP header says that comes next
	proto      int // next if that header is there as a whole, or protoNone
	l4Size     int // bytes of L4 header and payload, without Ethernet padding
	fragment   bool
	later      bool // a fragment other than the first: it has no L4 header
}

// ip and payload are the offsets of the IP header and of what is behind it.
func (h *headers) ip() int      { return h.at + h.l2 }
func (h *headers) payload() int { return h.at + h.l2 + h.l3 }

// addrs gives the source and the destination address of the IP header, one behind
// the other.
func (h *headers) addrs(frame []byte) []byte {
	if h.ipv6 {
		return frame[h.ip()+8 : h.ip()+40]
	}
	return frame[h.ip()+12 : h.ip()+20]
}

// ports gives the four bytes of the TCP or UDP ports, which the first fragment of
// a packet has too, or nil.
func (h *headers) ports(frame []byte) []byte {
	l4 := frame[h.payload():]
	if h.next != protoTCP && h.next != protoUDP || h.later || min(len(l4), h.l4Size) < 4 {
		return nil
	}
	return l4[:4]
}

// parse finds the headers in frame, the first segment of a packet of size
// bytes. It reports false for what is neither IPv4 nor IPv6, and for headers
// that are broken or do not lie in the frame as a whole.
func parse(frame []byte, size int) (h headers, ok bool) {
	h.proto = protoNone
	return h, h.parseEther(frame, size)
}

// parseEther reads the Ethernet header behind what is counted in l2, and what
// follows.
func (h *headers) parseEther(frame []byte, size int) bool {
	at := h.at + h.l2
	if len(frame) < at+etherLen {
		return false
	}
	kind := int(binary.BigEndian.Uint16(frame[at+12:]))
	h.l2 += etherLen
	for kind == etherVLAN || kind == etherQinQ {
		at = h.at + h.l2
		if len(frame) < at+vlanLen {
			return false
		}
		kind = int(binary.BigEndian.Uint16(frame[at+2:]))
		h.l2 += vlanLen
	}
	return h.parseIP(kind, frame, size)
}

// parseIP reads the header of the kind that the L2 header announces, and the
// L4 header.
func (h *headers) parseIP(kind int, frame []byte, size int) bool {
	h.etherType = kind
	ok := false
	switch {
	case h.ip() > len(frame):
	case kind == etherIPv4:
		ok = h.parseIPv4(frame[h.ip():], size-h.ip())
	case kind == etherIPv6:
		ok = h.parseIPv6(frame[h.ip():], size-h.ip())
	}
	if ok {
		h.parseL4(frame[h.payload():])
	}
	return ok
}

// parseIPv4 reads the header at ip; size is what the packet has from there.
func (h *headers) parseIPv4(ip []byte, size int) bool {
	if len(ip) < ipv4Len || ip[0]>>4 != 4 {
		return false
	}
	l3 := int(ip[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if l3 < ipv4Len || l3 > len(ip) || total < l3 || total > size {
		return false
	}
	h.l3, h.l4Size = l3, total-l3
	h.next = int(ip[9])
	const moreFragments, fragmentOffset = 0x2000, 0x1fff
	flags := binary.BigEndian.Uint16(ip[6:])
	h.fragment = flags&(moreFragments|fragmentOffset) != 0
	h.later = flags&fragmentOffset != 0
	return true
}

// parseIPv6 reads the header at ip and the extension headers that leave the
// pseudo-header as it is.
func (h *headers) parseIPv6(ip []byte, size int) bool {
	if len(ip) < ipv6Len || ip[0]>>4 != 6 {
		return false
	}
	l3 := ipv6Len
	payload := int(binary.BigEndian.Uint16(ip[4:]))
	if ipv6Len+payload > size {
		return false
	}
	next := int(ip[6])
	for next == protoHopByHop || next == protoDstOpts {
		if l3+8 > len(ip) {
			return false
		}
		next = int(ip[l3])
		l3 += 8 + int(ip[l3+1])*8
	}
	if l3 > len(ip) || l3 > ipv6Len+payload {
		return false
	}
	h.ipv6, h.l3, h.next, h.l4Size = true, l3, next, ipv6Len+payload-l3
	return true
}

// parseL4 reads the L4 header.
func (h *headers) parseL4(l4 []byte) {
	if h.fragment {
		return
	}
	there := min(len(l4), h.l4Size)
	switch {
	case h.next == protoUDP && there >= udpLen:
		h.l4 = udpLen
	case h.next == protoSCTP && there >= sctpLen:
	case h.next == protoTCP && there >= tcpLen:
		h.l4 = int(l4[12]>>4) * 4
		if h.l4 < tcpLen || h.l4 > there {
			h.l4 = 0
			return
		}
	default:
		return
	}
	h.proto = h.next
}
