package engine

import "vionet/mbuf"

// receiveOwn is receive for modes that write to packets: those that are lent, as
// by a port that leaves frames in the guest's memory, are copied first.
func (s *Stream) receiveOwn() []*mbuf.Buf {
	pkts := s.receive()
	if s.RxLends {
		pkts = s.own(pkts)
	}
	return pkts
}

// own puts copies in the place of lent packets. Those for which buffers are
// short are dropped.
func (s *Stream) own(pkts []*mbuf.Buf) []*mbuf.Buf {
	n := 0
	for _, b := range pkts {
		if b.Lent() {
			copied := s.cache.Copy(b)
			s.cache.Put(s.replaced(b))
			if b = copied; b == nil {
				s.TxDropped.Add(1)
				continue
			}
		}
		pkts[n] = b
		n++
	}
	return pkts[:n]
}
