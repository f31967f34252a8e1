package engine

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
)

// unsettled marks packets that are not as they would be on a wire.
const unsettled = mbuf.RxL4None | mbuf.RxLRO

// settle makes packets that came from a sender on the same host, or put together
// by a device, fit to leave: one without L4 checksum gets it, or a request for it
// where the Tx port takes one, and a large one is segmented by the port or here.
// The other packets keep their flags. It returns the burst, which has more
// packets where some were cut.
func (s *Stream) settle(pkts []*mbuf.Buf) []*mbuf.Buf {
	for _, b := range pkts {
		if b.Flags&unsettled != 0 {
			s.complete(b)
		}
	}
	return s.segment(pkts)
}

// complete settles one packet, but for cutting it.
func (s *Stream) complete(b *mbuf.Buf) {
	flags := s.passOn(b)
	if flags == 0 && b.Flags&mbuf.RxL4None != 0 {
		finish(b)
	}
	b.Flags = flags
}

// passOn gives the request for what is left to do, to the Tx port or to
// segment, or 0 when there is none.
func (s *Stream) passOn(b *mbuf.Buf) mbuf.Flags {
	large := b.Flags&mbuf.RxLRO != 0
	if !large && s.TxOffloads&l4Offloads == 0 {
		return 0
	}
	h, _ := parse(b.Bytes(), b.PacketLen())
	if b.Flags&mbuf.RxL4None != 0 && b.CSumStart != 0 && int(b.CSumStart) != h.payload() {
		h.proto = protoNone // the checksum is one of headers within
	}
	b.L2Len, b.L3Len, b.L4Len = uint16(h.l2), uint16(h.l3), uint16(h.l4)
	switch {
	case large:
		s.large++
		return h.segmentation()
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
