package engine

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
)

// Csum addresses each packet to the peer and fills in its checksums: in
// software, or by a request to the Tx port where that offload is active. It
// also asks for TCP segmentation. With ParseTunnel that holds for the packet
// inside of a tunnel, and the checksums of the tunnel are filled in as well.
//
// The IPv4 header checksum is always computed here, of packets to be
// segmented too: a receiver that takes the packet as a whole looks at it.
var Csum = &Engine{Name: "csum", Forward: forwardCsum, Checks: true}

func forwardCsum(s *Stream) int {
	pkts := s.receiveOwn()
	if len(pkts) == 0 {
		return 0
	}
	talks := s.Watch.Level() > 0
	for _, b := range pkts {
		flags := b.Flags
		if flags&(mbuf.RxIPBad|mbuf.RxL4Bad) != 0 {
			s.countBad(flags)
		}
		if !s.KeepMACs {
			s.address(b)
		}
		l := s.fillChecksums(b)
		if talks {
			s.Watch.checked(s, b, flags, l)
		}
	}
	out := s.segment(pkts)
	s.split(out)
	s.send(out)
	return len(pkts)
}

func (s *Stream) countBad(flags mbuf.Flags) {
	if flags&mbuf.RxIPBad != 0 {
		s.BadIPSum.Add(1)
	}
	if flags&mbuf.RxL4Bad != 0 {
		s.BadL4Sum.Add(1)
	}
}

// Offsets of checksum fields in their headers.
const (
	ipv4Checksum = 10
	tcpChecksum  = 16
	udpChecksum  = 6
	sctpChecksum = 8
)

const l4Offloads = port.TxTCPCksum | port.TxUDPCksum

// fillChecksums fills in the packet's checksums or requests them, and tells
// where it found its headers, up to the next packet.
func (s *Stream) fillChecksums(b *mbuf.Buf) *layers {
	frame := b.Bytes()
	l := &s.layers
	l.tunnel = noTunnel
	l.inner = headers{proto: protoNone}
	ok := l.inner.parseEther(frame, b.PacketLen())
	if ok && s.ParseTunnel {
		l.enter(frame, s.TunnelPorts)
	}
	if b.Flags&mbuf.RxLRO != 0 {
		s.complete(b)
		if s.TSOSize > 0 && b.Flags&mbuf.TxTSO != 0 {
			b.SegSize = uint16(s.TSOSize)
		}
		return l
	}
	if b.Flags&mbuf.RxL4None != 0 && !(ok && l.inner.sums(b.CSumStart)) {
		finish(b)
	}
	b.Flags = 0
	if !ok {
		return l
	}
	offloads, tso := s.TxOffloads, s.TSOSize
	if l.tunnel != noTunnel {
		tso = 0 // nobody segments inside of tunnels
		if hasUDPSum(frame, &l.outer) {
			// It covers the inner checksum, which must be there by then.
			offloads &^= l4Offloads
		}
	}
	b.L2Len, b.L3Len, b.L4Len = uint16(l.inner.ip()), uint16(l.inner.l3), uint16(l.inner.l4)
	fillIPv4(frame, &l.inner)
	fillL4(b, &l.inner, offloads, tso)
	if l.tunnel != noTunnel {
		fillIPv4(frame, &l.outer)
		if l.outer.proto == protoUDP {
			fillL4(b, &l.outer, 0, 0)
		}
	}
	return l
}

// hasUDPSum reports whether the packet has a UDP header with a checksum: zero
// says that the sender chose to have none.
func hasUDPSum(frame []byte, h *headers) bool {
	return h.proto == protoUDP && binary.BigEndian.Uint16(frame[h.payload()+udpChecksum:]) != 0
}

// sums reports whether fillL4 fills in the checksum of what begins at start,
// where 0 stands for wherever it is.
func (h *headers) sums(start uint16) bool {
	return (h.proto == protoTCP || h.proto == protoUDP) && (start == 0 || int(start) == h.payload())
}

func fillIPv4(frame []byte, h *headers) {
	if h.ipv6 {
		return
	}
	ip := frame[h.ip():h.payload()]
	putChecksum(ip[ipv4Checksum:], 0)
	putChecksum(ip[ipv4Checksum:], offload.Checksum(ip))
}

// fillL4 fills in the L4 checksum, or asks for it or for segments of tso bytes
// of payload.
func fillL4(b *mbuf.Buf, h *headers, offloads port.TxOffloads, tso int) {
	frame := b.Bytes()
	switch h.proto {
	case protoUDP:
		field := frame[h.payload()+udpChecksum:]
		switch {
		case !hasUDPSum(frame, h):
		case offloads&port.TxUDPCksum != 0:
			b.Flags = h.family() | mbuf.TxUDPChecksum
		default:
			putChecksum(field, 0)
			putChecksum(field, offload.NonZero(l4Sum(b, h)))
		}
	case protoTCP:
		field := frame[h.payload()+tcpChecksum:]
		switch {
		case tso > 0 && h.l4Size > h.l4+tso:
			b.Flags = h.family() | mbuf.TxTSO
			b.SegSize = uint16(tso)
		case offloads&port.TxTCPCksum != 0:
			b.Flags = h.family() | mbuf.TxTCPChecksum
		default:
			putChecksum(field, 0)
			putChecksum(field, l4Sum(b, h))
		}
	case protoSCTP:
		field := frame[h.payload()+sctpChecksum:]
		binary.LittleEndian.PutUint32(field, 0)
		binary.LittleEndian.PutUint32(field, crc32c(b, h.payload(), h.l4Size))
	}
}

// family is the flag that says which IP header a request speaks of.
func (h *headers) family() mbuf.Flags {
	if h.ipv6 {
		return mbuf.TxIPv6
	}
	return mbuf.TxIPv4
}

// l4Sum is the checksum over pseudo-header, L4 header and payload. The
// headers lie in the first segment, the payload may go on in others.
func l4Sum(b *mbuf.Buf, h *headers) uint16 {
	var s offload.Sum
	ip := b.Bytes()[h.ip():]
	if h.ipv6 {
		s.Add(ip[8:40])
	} else {
		s.Add(ip[12:20])
	}
	s.AddWord(uint16(h.proto))
	s.AddWord(uint16(h.l4Size))
	for piece := range pieces(b, h.payload(), h.l4Size) {
		s.Add(piece)
	}
	return s.Checksum()
}
