package engine

import "encoding/binary"

// Numbers of protocols.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	etherQinQ = 0x88a8

	protoHopByHop = 0
	protoTCP      = 6
	protoUDP      = 17
	protoDstOpts  = 60
	// protoNone marks a packet whose L4 header is not there to be worked
	// on: a fragment, an unknown protocol, a broken length.
	protoNone = -1
)

// headers says where the headers of a frame are.
type headers struct {
	ipv6       bool
	l2, l3, l4 int // lengths in bytes; l3 with options or extension headers
	proto      int // protoTCP, protoUDP or protoNone
	l4Size     int // bytes of L4 header and payload, without Ethernet padding
}

// parse finds the headers in frame, the first segment of a packet of size
// bytes. It reports false for what is neither IPv4 nor IPv6, and for headers
// that are broken or do not lie in the frame as a whole.
func parse(frame []byte, size int) (h headers, ok bool) {
	if len(frame) < etherLen {
		return h, false
	}
	h.l2 = etherLen
	kind := binary.BigEndian.Uint16(frame[12:])
	for tags := 0; (kind == etherVLAN || kind == etherQinQ) && tags < 2; tags++ {
		if len(frame) < h.l2+vlanLen {
			return h, false
		}
		kind = binary.BigEndian.Uint16(frame[h.l2+2:])
		h.l2 += vlanLen
	}
	switch kind {
	case etherIPv4:
		ok = h.parseIPv4(frame[h.l2:], size-h.l2)
	case etherIPv6:
		ok = h.parseIPv6(frame[h.l2:], size-h.l2)
	}
	if ok {
		h.parseL4(frame[h.l2+h.l3:])
	}
	return h, ok
}

// parseIPv4 reads the header at ip; size is what the packet has from there.
func (h *headers) parseIPv4(ip []byte, size int) bool {
	if len(ip) < ipv4Len || ip[0]>>4 != 4 {
		return false
	}
	h.l3 = int(ip[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if h.l3 < ipv4Len || h.l3 > len(ip) || total < h.l3 || total > size {
		return false
	}
	h.l4Size = total - h.l3
	h.proto = int(ip[9])
	const moreFragments, fragmentOffset = 0x2000, 0x1fff
	if binary.BigEndian.Uint16(ip[6:])&(moreFragments|fragmentOffset) != 0 {
		h.proto = protoNone
	}
	return true
}

// parseIPv6 reads the header at ip and the extension headers that leave the
// pseudo-header as it is.
func (h *headers) parseIPv6(ip []byte, size int) bool {
	if len(ip) < ipv6Len || ip[0]>>4 != 6 {
		return false
	}
	h.ipv6 = true
	h.l3 = ipv6Len
	payload := int(binary.BigEndian.Uint16(ip[4:]))
	if ipv6Len+payload > size {
		return false
	}
	h.proto = int(ip[6])
	for h.proto == protoHopByHop || h.proto == protoDstOpts {
		if h.l3+8 > len(ip) {
			return false
		}
		h.proto = int(ip[h.l3])
		h.l3 += 8 + int(ip[h.l3+1])*8
	}
	if h.l3 > len(ip) || h.l3 > ipv6Len+payload {
		return false
	}
	h.l4Size = ipv6Len + payload - h.l3
	return true
}

// parseL4 reads the L4 header.
func (h *headers) parseL4(l4 []byte) {
	switch {
	case h.proto == protoUDP && len(l4) >= udpLen && h.l4Size >= udpLen:
		h.l4 = udpLen
	case h.proto == protoTCP && len(l4) >= tcpLen && h.l4Size >= tcpLen:
		h.l4 = int(l4[12]>>4) * 4
		if h.l4 < tcpLen || h.l4 > len(l4) || h.l4 > h.l4Size {
			h.proto = protoNone
		}
	default:
		h.proto = protoNone
	}
}
