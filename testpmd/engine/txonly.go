package engine

import (
	"encoding/binary"

	"vionet/mbuf"
)

// TxOnly sends packets that it makes, and receives nothing.
var TxOnly = &Engine{Name: "txonly", Forward: forwardTxOnly, Generates: true}

// Where the packets of mode txonly go if nothing else was said: the addresses
// are those that RFC 2544 keeps for benchmarks, the port is discard's.
var (
	defaultTxAddrs = [2][4]byte{{198, 18, 0, 1}, {198, 18, 0, 2}}
	defaultTxPorts = [2]uint16{9, 9}
)

// newTxTemplate makes the headers of the packets of mode txonly.
func newTxTemplate(cfg StreamConfig) template {
	if cfg.TxAddrs == [2][4]byte{} {
		cfg.TxAddrs = defaultTxAddrs
	}
	if cfg.TxPorts == [2]uint16{} {
		cfg.TxPorts = defaultTxPorts
	}
	return newTemplate(flowAddrs{
		src: cfg.Source, dst: cfg.Peer,
		srcIP: cfg.TxAddrs[0], dstIP: cfg.TxAddrs[1],
		srcPort: cfg.TxPorts[0], dstPort: cfg.TxPorts[1],
	}, total(cfg.TxSegs))
}

func forwardTxOnly(s *Stream) int {
	pkts := s.generate()
	if len(pkts) == 0 {
		// Everything may sit in the transmit queue, sent already.
		s.Tx.Reclaim()
		return 0
	}
	s.send(pkts)
	return len(pkts)
}

// generate makes a burst of packets, fewer when buffers are short.
func (s *Stream) generate() []*mbuf.Buf {
	pkts := s.bufs[:s.cache.Get(s.bufs)]
	switch {
	case len(s.TxSegs) > 1:
		pkts = s.fillChains(pkts)
	case s.MultiFlow:
		for _, b := range pkts {
			s.nextFlow()
			s.fillSingle(b)
		}
	default:
		for _, b := range pkts {
			s.fillSingle(b)
		}
	}
	s.requestTags(pkts)
	return pkts
}

// fillSingle makes a packet of one segment.
func (s *Stream) fillSingle(b *mbuf.Buf) {
	if data := b.Renew(s.TxSegs[0]); len(data) >= MinTxLen {
		*(*template)(data) = s.udp // as one move
	}
}

// nextFlow makes the packets that follow those of another flow, of 256 for each
// queue: the source address is near the destination.
func (s *Stream) nextFlow() {
	s.variant++
	near := binary.BigEndian.Uint32(s.udp[tmplTo:]) | uint32(s.variant)<<8
	s.udp.setAddr(tmplFrom, near+1+uint32(s.TxQueue))
}

// fillChains makes packets of several segments with the heads in pkts, as many
// as there are further buffers for.
func (s *Stream) fillChains(pkts []*mbuf.Buf) []*mbuf.Buf {
	further := len(s.TxSegs) - 1
	segs := s.segs[:s.cache.Get(s.segs[:len(pkts)*further])]
	whole := len(segs) / further
	s.cache.Put(segs[whole*further:])
	s.cache.Put(pkts[whole:])
	pkts = pkts[:whole]
	for i, b := range pkts {
		if s.MultiFlow {
			s.nextFlow()
		}
		tail := segs[i*further : (i+1)*further]
		if s.TxSplit == SplitRandom {
			n := s.someSegments()
			s.udp.setLength(total(s.TxSegs[:n]))
			s.cache.Put(tail[n-1:])
			tail = tail[:n-1]
		}
		s.fillChain(b, tail)
	}
	return pkts
}

// someSegments gives a random number of segments whose room holds the headers.
func (s *Stream) someSegments() int {
	least := 1
	for total(s.TxSegs[:least]) < MinTxLen {
		least++
	}
	return least + int(s.dice.roll(uint64(len(s.TxSegs)-least+1)))
}

// fillChain makes a packet of the head and the segments behind it. The
// headers flow over the first ones if these are short.
func (s *Stream) fillChain(head *mbuf.Buf, tail []*mbuf.Buf) {
	head.Reset()
	headers := s.udp[:]
	headers = headers[copy(head.Append(s.TxSegs[0]), headers):]
	last := head
	for i, seg := range tail {
		seg.Reset()
		headers = headers[copy(seg.Append(s.TxSegs[i+1]), headers):]
		head.Link(last, seg)
		last = seg
	}
}
