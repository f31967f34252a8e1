package engine

// RxOnly receives packets and frees them.
var RxOnly = &Engine{Name: "rxonly", Forward: forwardRxOnly}

func forwardRxOnly(s *Stream) int {
	pkts := s.receive()
	if len(pkts) > 0 {
		s.cache.Put(pkts)
	}
	return len(pkts)
}
