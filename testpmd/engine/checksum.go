package engine

import (
	"encoding/binary"
	"hash/crc32"
	"iter"

	"vionet/mbuf"
	"vionet/offload"
)

// adjust gives the checksum of data of which the part old became new, both of
// the same, even length (RFC 1624).
func adjust(sum uint16, old, new []byte) uint16 {
	var s offload.Sum
	s.AddWord(^sum)
	for i := 0; i+1 < len(old); i += 2 {
		s.AddWord(^binary.BigEndian.Uint16(old[i:]))
	}
	s.Add(new)
	return s.Checksum()
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
