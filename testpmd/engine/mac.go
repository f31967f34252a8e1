package engine

import (
	"vionet/mbuf"
	"vionet/port"
)

// MAC addresses each packet from the Tx port to its peer.
var MAC = &Engine{Name: "mac", Forward: forwardMAC}

func forwardMAC(s *Stream) int {
	pkts := s.receive()
	if len(pkts) == 0 {
		return 0
	}
	for _, b := range pkts {
		s.address(b)
	}
	s.plainRequests(pkts)
	s.send(pkts)
	return len(pkts)
}

// Lengths in bytes of headers without options.
const (
	etherLen = 14
	vlanLen  = 4
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
	tcpLen   = 20
)

// address writes the MAC addresses of peer and Tx port into the frame.
func (s *Stream) address(b *mbuf.Buf) {
	if frame := b.Bytes(); len(frame) >= etherLen {
		copy(frame[0:6], s.Peer[:])
		copy(frame[6:12], s.Source[:])
	}
}

// plainRequests asks for nothing but the VLAN tag, if that is switched on.
func (s *Stream) plainRequests(pkts []*mbuf.Buf) {
	for _, b := range pkts {
		b.Flags = 0
	}
	s.requestTags(pkts)
}

// requestTags asks for the VLAN tag, if that is switched on, for packets that
// ask for nothing.
func (s *Stream) requestTags(pkts []*mbuf.Buf) {
	if s.TxOffloads&port.TxVLANInsert == 0 {
		return
	}
	for _, b := range pkts {
		b.Flags, b.VLAN = mbuf.TxVLAN, s.VLAN
	}
}
