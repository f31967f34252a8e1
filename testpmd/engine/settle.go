package engine

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
)

// settle gives packets that came without an L4 checksum, from a sender on the
// same host, what they lack before they leave it: the checksum, or a request
// for it where the Tx port takes one. The other packets keep their flags.
func (s *Stream) settle(pkts []*mbuf.Buf) {
	for _, b := range pkts {
		if b.Flags&mbuf.RxL4None != 0 {
			s.complete(b)
		}
	}
}

// complete settles one packet.
func (s *Stream) complete(b *mbuf.Buf) {
	flags := s.passOn(b)
	if flags == 0 {
		finish(b)
	}
	b.Flags = flags
}

// passOn gives the request to the Tx port that does what is left to do, or 0
// when there is none.
func (s *Stream) passOn(b *mbuf.Buf) mbuf.Flags {
	if s.TxOffloads&(l4Offloads|port.TxTCPTSO) == 0 {
		return 0
	}
	h, ok := parse(b.Bytes(), b.PacketLen())
	if !ok || b.CSumStart != 0 && int(b.CSumStart) != h.payload() {
		return 0
	}
	b.L2Len, b.L3Len, b.L4Len = uint16(h.l2), uint16(h.l3), uint16(h.l4)
	switch {
	case h.proto == protoTCP && b.Flags&mbuf.RxLRO != 0 && s.TxOffloads&port.TxTCPTSO != 0:
		return h.family() | mbuf.TxTSO
	case h.proto == protoTCP && s.TxOffloads&port.TxTCPCksum != 0:
		return h.family() | mbuf.TxTCPChecksum
	case h.proto == protoUDP && s.TxOffloads&port.TxUDPCksum != 0:
		return h.family() | mbuf.TxUDPChecksum
	}
	return 0
}

// finish fills in the checksum that the sender left out. The field holds the
// sum of the pseudo-header already.
func finish(b *mbuf.Buf) {
	start, field, left := int(b.CSumStart), int(b.CSumStart)+int(b.CSumOffset), b.PacketLen()-int(b.CSumStart)
	if start == 0 {
		h, _ := parse(b.Bytes(), b.PacketLen())
		start, left = h.payload(), h.l4Size
		switch h.proto {
		case protoTCP:
			field = start + tcpChecksum
		case protoUDP:
			field = start + udpChecksum
		default:
			return
		}
	}
	var s offload.Sum
	for piece := range pieces(b, start, left) {
		s.Add(piece)
	}
	var sum [2]byte
	binary.BigEndian.PutUint16(sum[:], offload.NonZero(s.Checksum()))
	// The field may lie on the border of two segments.
	rest := sum[:]
	for piece := range pieces(b, field, len(sum)) {
		rest = rest[copy(piece, rest):]
	}
}
