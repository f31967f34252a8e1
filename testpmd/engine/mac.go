package engine

import (
	"vionet/mbuf"
	"vionet/port"
)

// MAC addresses each packet from the Tx port to its peer.
var MAC = &Engine{Name: "mac", Forward: forwardMAC}

func forwardMAC(s *Stream) int {
	pkts := s.receiveOwn()
	if len(pkts) == 0 {
		return 0
	}
	for _, b := range pkts {
		s.address(b)
	}
	s.send(s.plainRequests(pkts))
	return len(pkts)
}

// address writes the MAC addresses of peer and Tx port into the frame.
func (s *Stream) address(b *mbuf.Buf) {
	if frame := b.Bytes(); len(frame) >= etherLen {
		copy(frame[0:6], s.Peer[:])
		copy(frame[6:12], s.Source[:])
	}
}

// plainRequests asks for nothing but a missing checksum or segmentation, and the
// VLAN tag if that is switched on. It returns the burst, as settle does.
func (s *Stream) plainRequests(pkts []*mbuf.Buf) []*mbuf.Buf {
	for _, b := range pkts {
		if b.Flags&unsettled != 0 {
			s.complete(b)
		} else {
			b.Flags = 0
		}
	}
	pkts = s.segment(pkts)
	s.requestTags(pkts)
	return pkts
}

// requestTags asks for the VLAN tag, if that is switched on.
func (s *Stream) requestTags(pkts []*mbuf.Buf) {
	if s.TxOffloads&port.TxVLANInsert == 0 {
		return
	}
	for _, b := range pkts {
		b.Flags, b.VLAN = b.Flags|mbuf.TxVLAN, s.VLAN
	}
}
