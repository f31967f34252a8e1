package engine

// RxOnly receives packets and frees them.
var RxOnly = &Engine{Name: "rxonly", Forward: forwardRxOnly}

// SharedRxq counts each packet for the port that it came from and frees it. No
// port here shares its receive queues with another one, so that this is the
// stream's port and the mode does what RxOnly does.
var SharedRxq = &Engine{Name: "shared-rxq", Alias: "shared_rxq", Forward: forwardRxOnly}

func forwardRxOnly(s *Stream) int {
	pkts := s.receive()
	if len(pkts) > 0 {
		s.cache.Put(pkts)
	}
	return len(pkts)
}
