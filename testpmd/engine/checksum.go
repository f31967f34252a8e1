package engine

import (
	"encoding/binary"
	"hash/crc32"
	"iter"

	"vionet/mbuf"
)

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

// adjust gives the checksum of data of which the part old became new, both of
// the same, even length (RFC 1624).
func adjust(sum uint16, old, new []byte) uint16 {
	s := onesSum{acc: uint64(^sum)}
	for i := 0; i+1 < len(old); i += 2 {
		s.addWord(^binary.BigEndian.Uint16(old[i:]))
	}
	s.add(new)
	return s.checksum()
}

// pieces gives left bytes of a packet from offset from, segment by segment.
func pieces(b *mbuf.Buf, from, left int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for seg := b; seg != nil && left > 0; seg = seg.Next() {
			data := seg.Bytes()
			data = data[min(from, len(data)):]
			data = data[:min(len(data), left)]
			from = max(from-seg.Len(), 0)
			left -= len(data)
			if len(data) > 0 && !yield(data) {
				return
			}
		}
	}
}

func putChecksum(field []byte, sum uint16) { binary.BigEndian.PutUint16(field, sum) }

// nonZero is the sum as UDP sends it, where zero means "none".
func nonZero(sum uint16) uint16 {
	if sum == 0 {
		return 0xffff
	}
	return sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crc32c is the checksum of the left bytes of an SCTP packet from offset from
// (RFC 9260, section 6.8); the field itself must hold zero.
func crc32c(b *mbuf.Buf, from, left int) uint32 {
	crc := uint32(0)
	for piece := range pieces(b, from, left) {
		crc = crc32.Update(crc, castagnoli, piece)
	}
	return crc
}
