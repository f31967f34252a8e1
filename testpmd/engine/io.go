package engine

// IO forwards packets as they are.
var IO = &Engine{Name: "io", Forward: forwardIO}

// RecycleMbufs is IO under the name of a mode that spares the way of sent
// buffers through the pool: here no mode takes it, since a stream's receive
// queue fills up from the cache that its transmit queue frees into.
var RecycleMbufs = &Engine{Name: "recycle_mbufs", Forward: forwardIO}

func forwardIO(s *Stream) int {
	pkts := s.receive()
	if len(pkts) > 0 {
		s.send(s.settle(pkts))
	}
	return len(pkts)
}
