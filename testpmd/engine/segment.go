package engine

import (
	"vionet/mbuf"
	"vionet/port"
)

// segmentation is the request to segment a packet with these headers. One that
// is neither TCP nor UDP cannot be; the request says so by naming no kind of IP.
func (h *headers) segmentation() mbuf.Flags {
	switch h.proto {
	case protoTCP:
		return h.family() | mbuf.TxTSO
	case protoUDP:
		return h.family() | mbuf.TxUSO
	}
	return mbuf.TxTSO
}

// segment cuts the large packets of a burst that the Tx port does not, and
// returns the burst with their segments instead. Their checksums are requests
// where the port takes those. A packet that cannot be cut, or whose segments find
// no buffers, counts as dropped.
func (s *Stream) segment(pkts []*mbuf.Buf) []*mbuf.Buf {
	if s.large == 0 {
		return pkts
	}
	s.large = 0
	out := s.segmented[:0]
	for _, b := range pkts {
		if !s.mustCut(b.Flags) {
			out = append(out, b)
			continue
		}
		segments, err := s.segmenter.Segment(b, s.cache, s.checksumRequests())
		if err != nil {
			s.TxDropped.Add(1)
		}
		out = append(out, segments...)
		s.cache.Put(s.replaced(b))
	}
	s.segmented = out
	return out
}

// mustCut reports whether a packet with that request is for segment to cut.
func (s *Stream) mustCut(flags mbuf.Flags) bool {
	switch {
	case flags&mbuf.TxTSO != 0:
		return s.TxOffloads&port.TxTCPTSO == 0 || flags&(mbuf.TxIPv4|mbuf.TxIPv6) == 0
	case flags&mbuf.TxUSO != 0:
		return s.TxOffloads&port.TxUDPTSO == 0
	}
	return false
}

// checksumRequests are those that the Tx port takes.
func (s *Stream) checksumRequests() (flags mbuf.Flags) {
	if s.TxOffloads&port.TxTCPCksum != 0 {
		flags |= mbuf.TxTCPChecksum
	}
	if s.TxOffloads&port.TxUDPCksum != 0 {
		flags |= mbuf.TxUDPChecksum
	}
	return flags
}
