package engine

import "vionet/mbuf"

// SplitMode says into how many of the segments in TxSegs packets are split.
type SplitMode int

// Split modes.
const (
	SplitOff    SplitMode = iota // mode txonly takes all, mode csum leaves packets as they are
	SplitOn                      // all, in mode csum too
	SplitRandom                  // a random number of them, from the first on
)

// split copies each packet of mode csum into segments as TxSegs says, where
// that is asked for. A packet for which buffers are short stays as it is.
func (s *Stream) split(pkts []*mbuf.Buf) {
	if s.TxSplit == SplitOff {
		return
	}
	for i, b := range pkts {
		if copied := s.copySplit(b); copied != nil {
			pkts[i] = copied
			s.cache.Put(s.replaced(b))
		}
	}
}

// replaced makes a burst of one packet.
func (s *Stream) replaced(b *mbuf.Buf) []*mbuf.Buf {
	s.one[0] = b
	return s.one[:]
}

// copySplit gives a copy of the packet in segments, the last of which takes
// what the others leave, or nil.
func (s *Stream) copySplit(b *mbuf.Buf) *mbuf.Buf {
	n := len(s.TxSegs)
	if s.TxSplit == SplitRandom {
		n = 1 + int(s.dice.roll(uint64(n)))
	}
	lengths := s.lengths[:0]
	left := b.PacketLen()
	for i := 0; i < n && left > 0; i++ {
		length := min(s.TxSegs[i], left)
		if i == n-1 {
			length = left
		}
		lengths = append(lengths, length)
		left -= length
	}
	if len(lengths) == 0 {
		return nil
	}
	segs := s.splitSegs[:s.cache.Get(s.splitSegs[:len(lengths)])]
	if len(segs) < len(lengths) || !fill(segs, lengths, b) {
		s.cache.Put(segs)
		return nil
	}
	head := segs[0]
	head.Flags, head.VLAN, head.SegSize = b.Flags, b.VLAN, b.SegSize
	head.L2Len, head.L3Len, head.L4Len = b.L2Len, b.L3Len, b.L4Len
	for i, seg := range segs[1:] {
		head.Link(segs[i], seg)
	}
	return head
}

// fill copies the packet b into segs, and reports whether it has room there.
func fill(segs []*mbuf.Buf, lengths []int, b *mbuf.Buf) bool {
	from := 0
	for i, seg := range segs {
		data := seg.Renew(lengths[i])
		if data == nil {
			return false
		}
		for piece := range pieces(b, from, lengths[i]) {
			data = data[copy(data, piece):]
		}
		from += lengths[i]
	}
	return true
}
