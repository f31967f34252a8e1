package vhost

import "testing"

func TestCompleteChecksum(t *testing.T) {
	tests := []struct {
		name          string
		frame         []byte
		start, offset uint16
		want          uint16 // at start+offset
	}{
		// ~(0x1234 + 0x5678) = ~0x68ac
		{"two words", []byte{0x12, 0x34, 0x56, 0x78}, 0, 0, 0x9753},
		// The odd byte counts as the high half of a word: ~(0x0001 + 0xff00) = ~0xff01
		{"odd length", []byte{0x00, 0x01, 0xff}, 0, 0, 0x00fe},
		// 0xffff + 0x0002 carries round to 0x0002
		{"end-around carry", []byte{0xff, 0xff, 0x00, 0x02}, 0, 2, 0xfffd},
		// What comes before the start does not count.
		{"start", []byte{0xaa, 0xaa, 0x00, 0x01, 0x00, 0x02}, 2, 2, 0xfffc},
		// A sum of 0xffff makes 0, which is written as 0xffff.
		{"zero", []byte{0xff, 0xff}, 0, 0, 0xffff},
	}
	for _, tt := range tests {
		completeChecksum(tt.frame, tt.start, tt.offset)
		at := tt.start + tt.offset
		if got := uint16(tt.frame[at])<<8 | uint16(tt.frame[at+1]); got != tt.want {
			t.Errorf("%s: %#04x, want %#04x", tt.name, got, tt.want)
		}
	}
}
