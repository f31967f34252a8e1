package offload

import (
	"testing"

	"pgregory.net/rapid"
)

// slowSum is the ones' complement sum of the pieces, byte by byte.
func slowSum(pieces ...[]byte) uint16 {
	sum, weight := 0, 256
	for _, p := range pieces {
		for _, v := range p {
			sum += int(v) * weight
			sum, weight = sum%0x10000+sum/0x10000, 257-weight
		}
	}
	return uint16(sum)
}

func TestSumOfTheRFC(t *testing.T) {
	// The example of RFC 1071, section 3: the sum is ddf2.
	data := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	var s Sum
	s.Add(data)
	if s.Folded() != 0xddf2 || s.Checksum() != 0x220d || Checksum(data) != 0x220d {
		t.Errorf("sum %04x, checksums %04x and %04x", s.Folded(), s.Checksum(), Checksum(data))
	}
	if NonZero(0) != 0xffff || NonZero(0x220d) != 0x220d {
		t.Errorf("as UDP sends them: %04x, %04x", NonZero(0), NonZero(0x220d))
	}
}

// The places where data is divided do not matter.
func TestSumOfPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		var s Sum
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			s.Add(rest[:n])
			rest = rest[n:]
		}
		if got, want := s.Folded(), slowSum(data); got != want {
			t.Fatalf("%04x, want %04x", got, want)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	data := make([]byte, 1460)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Checksum(data)
	}
}
