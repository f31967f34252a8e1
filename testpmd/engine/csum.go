package engine

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/port"
)

// Csum addresses each packet to the peer and fills in its checksums: in
// software, or by a request to the Tx port where that offload is active. It
// also asks for TCP segmentation.
//
// The IPv4 header checksum is always computed here, of packets to be
// segmented too: a receiver that takes the packet as a whole looks at it.
var Csum = &Engine{Name: "csum", Forward: forwardCsum, Checks: true}

func forwardCsum(s *Stream) int {
	pkts := s.receive()
	if len(pkts) == 0 {
		return 0
	}
	for _, b := range pkts {
		if !s.KeepMACs {
			s.address(b)
		}
		s.fillChecksums(b)
	}
	s.send(pkts)
	return len(pkts)
}

// Offsets of checksum fields in their headers.
const (
	ipv4Checksum = 10
	tcpChecksum  = 16
	udpChecksum  = 6
)

// fillChecksums fills in the packet's checksums or requests them.
func (s *Stream) fillChecksums(b *mbuf.Buf) {
	b.Flags = 0
	frame := b.Bytes()
	h, ok := parse(frame, b.PacketLen())
	if !ok {
		return
	}
	b.L2Len, b.L3Len, b.L4Len = uint16(h.l2), uint16(h.l3), uint16(h.l4)
	family := mbuf.TxIPv6
	if !h.ipv6 {
		family = mbuf.TxIPv4
		ip := frame[h.l2 : h.l2+h.l3]
		putChecksum(ip[ipv4Checksum:], 0)
		putChecksum(ip[ipv4Checksum:], checksum(ip))
	}
	l4 := frame[h.l2+h.l3:]
	switch h.proto {
	case protoUDP:
		field := l4[udpChecksum:]
		switch {
		case !h.ipv6 && field[0] == 0 && field[1] == 0:
			// The sender chose to have none.
		case s.TxOffloads&port.TxUDPCksum != 0:
			b.Flags = family | mbuf.TxUDPChecksum
		default:
			putChecksum(field, 0)
			// Zero means "none" and is sent as its other form.
			putChecksum(field, nonZero(l4Sum(b, h)))
		}
	case protoTCP:
		field := l4[tcpChecksum:]
		switch {
		case s.TSOSize > 0 && h.l4Size > h.l4+s.TSOSize:
			b.Flags = family | mbuf.TxTSO
			b.SegSize = uint16(s.TSOSize)
		case s.TxOffloads&port.TxTCPCksum != 0:
			b.Flags = family | mbuf.TxTCPChecksum
		default:
			putChecksum(field, 0)
			putChecksum(field, l4Sum(b, h))
		}
	}
}

// l4Sum is the checksum over pseudo-header, L4 header and payload. The
// headers lie in the first segment, the payload may go on in others.
func l4Sum(b *mbuf.Buf, h headers) uint16 {
	var s onesSum
	frame := b.Bytes()
	ip := frame[h.l2:]
	if h.ipv6 {
		s.add(ip[8:40])
	} else {
		s.add(ip[12:20])
	}
	s.addWord(uint16(h.proto))
	s.addWord(uint16(h.l4Size))

	skip, left := h.l2+h.l3, h.l4Size
	for seg := b; seg != nil && left > 0; seg = seg.Next() {
		data := seg.Bytes()[skip:]
		data = data[:min(len(data), left)]
		s.add(data)
		left -= len(data)
		skip = 0
	}
	return s.checksum()
}

func putChecksum(field []byte, sum uint16) { binary.BigEndian.PutUint16(field, sum) }

func nonZero(sum uint16) uint16 {
	if sum == 0 {
		return 0xffff
	}
	return sum
}
