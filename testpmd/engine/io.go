package engine

// IO forwards packets as they are.
var IO = &Engine{Name: "io", Forward: forwardIO}

func forwardIO(s *Stream) int {
	pkts := s.receive()
	if len(pkts) > 0 {
		s.send(pkts)
	}
	return len(pkts)
}
