package engine

// MACSwap sends each packet back to where it came from.
var MACSwap = &Engine{Name: "macswap", Forward: forwardMACSwap}

func forwardMACSwap(s *Stream) int {
	pkts := s.receiveOwn()
	if len(pkts) == 0 {
		return 0
	}
	for _, b := range pkts {
		swapMACs(b.Bytes())
	}
	s.send(s.plainRequests(pkts))
	return len(pkts)
}

// swapMACs swaps the Ethernet addresses of a frame that has them.
func swapMACs(frame []byte) {
	if len(frame) >= etherLen {
		dst := [6]byte(frame[0:6])
		copy(frame[0:6], frame[6:12])
		copy(frame[6:12], dst[:])
	}
}
