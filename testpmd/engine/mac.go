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
	s.plainRequests(pkts)
	s.send(pkts)
	return len(pkts)
}

// address writes the MAC addresses of peer and Tx port into the frame.
func (s *Stream) address(b *mbuf.Buf) {
	if frame := b.Bytes(); len(frame) >= etherLen {
		copy(frame[0:6], s.Peer[:])
		copy(frame[6:12], s.Source[:])
	}
}

// plainRequests asks for nothing but a missing checksum, and the VLAN tag if
// that is switched on.
func (s *Stream) plainRequests(pkts []*mbuf.Buf) {
	for _, b := range pkts {
		if b.Flags&mbuf.RxL4None != 0 {
			s.complete(b)
		} else {
			b.Flags = 0
		}
	}
	s.requestTags(pkts)
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
