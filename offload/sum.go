package offload

import "encoding/binary"

// Sum is the running ones' complement sum of RFC 1071 over any number of
// pieces, which may have odd lengths. The zero value is the sum of nothing. It
// has room for 2^32 bytes.
type Sum struct {
	acc uint64
	odd bool // the next byte is the lower half of a 16-bit word
}

// Add adds a piece.
func (s *Sum) Add(b []byte) {
	if s.odd && len(b) > 0 {
		s.acc += uint64(b[0])
		s.odd = false
		b = b[1:]
	}
	// The high half of acc collects the carries.
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

// AddWord adds one 16-bit number, between two pieces of even length.
func (s *Sum) AddWord(v uint16) { s.acc += uint64(v) }

// Folded is the sum in 16 bits, carries added in. It is not inverted: what the
// checksum field of a packet holds that leaves its checksum to the device.
func (s *Sum) Folded() uint16 {
	acc := s.acc
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return uint16(acc)
}

// Checksum is the complement of the sum.
func (s *Sum) Checksum() uint16 { return ^s.Folded() }

// Checksum is the Internet checksum of b.
func Checksum(b []byte) uint16 {
	var s Sum
	s.Add(b)
	return s.Checksum()
}

// NonZero is the checksum as UDP sends it, where zero means "none".
func NonZero(sum uint16) uint16 {
	if sum == 0 {
		return 0xffff
	}
	return sum
}
