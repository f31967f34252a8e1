package engine

import "encoding/binary"

// onesSum is the running ones' complement sum of RFC 1071 over any number of
// pieces, which may have odd lengths.
type onesSum struct {
	acc uint64
	odd bool // the next byte is the lower half of a 16-bit word
}

func (s *onesSum) add(b []byte) {
	if s.odd && len(b) > 0 {
		s.acc += uint64(b[0])
		s.odd = false
		b = b[1:]
	}
	// The high half of acc collects the carries: 64 KiB are far from
	// overflowing it.
	for len(b) >= 8 {
		v := binary.BigEndian.Uint64(b)
		s.acc += v>>32 + v&0xffffffff
		b = b[8:]
	}
	for len(b) >= 2 {
		s.acc += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s.acc += uint64(b[0]) << 8
		s.odd = true
	}
}

// addWord adds one 16-bit number, between two pieces of even length.
func (s *onesSum) addWord(v uint16) { s.acc += uint64(v) }

// checksum is the complement of the sum, folded to 16 bits.
func (s *onesSum) checksum() uint16 {
	acc := s.acc
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return ^uint16(acc)
}

// checksum is the Internet checksum of b.
func checksum(b []byte) uint16 {
	var s onesSum
	s.add(b)
	return s.checksum()
}
