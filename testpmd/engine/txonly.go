package engine

import (
	"encoding/binary"

	"vionet/mbuf"
)

// TxOnly sends packets that it makes, and receives nothing.
var TxOnly = &Engine{Name: "txonly", Forward: forwardTxOnly, Generates: true}

// MinTxLen is the shortest packet that can be generated, in bytes: its
// headers.
const MinTxLen = etherLen + ipv4Len + udpLen

// DefaultTxLen is the length of generated packets in bytes, without the frame
// check sequence.
const DefaultTxLen = 64

// template holds the headers of generated packets: the addresses are those
// that RFC 2544 keeps for benchmarks, the port is discard's.
type template [MinTxLen]byte

func newTemplate(cfg StreamConfig) (t template) {
	length := 0
	for _, n := range cfg.TxSegs {
		length += n
	}
	copy(t[0:], cfg.Peer[:])
	copy(t[6:], cfg.Source[:])
	binary.BigEndian.PutUint16(t[12:], etherIPv4)

	ip := t[etherLen : etherLen+ipv4Len]
	ip[0] = 0x45
	binary.BigEndian.PutUint16(ip[2:], uint16(length-etherLen))
	ip[8], ip[9] = 64, protoUDP
	copy(ip[12:], []byte{198, 18, 0, 1})
	copy(ip[16:], []byte{198, 18, 0, 2})
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))

	udp := t[etherLen+ipv4Len:]
	binary.BigEndian.PutUint16(udp[0:], 9)
	binary.BigEndian.PutUint16(udp[2:], 9)
	binary.BigEndian.PutUint16(udp[4:], uint16(length-etherLen-ipv4Len))
	return t
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
	if len(s.TxSegs) > 1 {
		pkts = s.fillChains(pkts)
	} else {
		length := s.TxSegs[0]
		for _, b := range pkts {
			if data := b.Renew(length); len(data) >= MinTxLen {
				*(*template)(data) = s.udp // as one move
			}
		}
	}
	s.requestTags(pkts)
	return pkts
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
		s.fillChain(b, segs[i*further:(i+1)*further])
	}
	return pkts
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
