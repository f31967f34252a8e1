package virtio

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFeatureNames(t *testing.T) {
	tests := []struct {
		f    Features
		want string
	}{
		{0, "none"},
		{NetCSUM | Version1, "CSUM VERSION_1"},
		{1 << 4, "bit 4"},
		{NetSpeedDuplex, "SPEED_DUPLEX"},
	}
	for _, tt := range tests {
		if got := tt.f.String(); got != tt.want {
			t.Errorf("%#x: %q, want %q", uint64(tt.f), got, tt.want)
		}
	}
}

// TestFeatureNumbers holds the bits against virtio 1.2, sections 5.1.3 and 6.
func TestFeatureNumbers(t *testing.T) {
	for bit, f := range map[int]Features{
		0: NetCSUM, 1: NetGuestCSUM, 3: NetMTU, 5: NetMAC, 7: NetGuestTSO4, 11: NetHostTSO4, 12: NetHostTSO6,
		15: NetMrgRxbuf, 16: NetStatus, 17: NetCtrlVQ, 22: NetMQ, 28: IndirectDesc, 29: EventIdx,
		32: Version1, 33: AccessPlatform, 34: RingPacked, 35: InOrder, 57: NetHashReport, 60: NetRSS,
	} {
		if f != 1<<bit {
			t.Errorf("%v is %#x, want bit %d", f, uint64(f), bit)
		}
	}
}

func TestHeaderSize(t *testing.T) {
	for f, want := range map[Features]int{
		0: 10, NetCSUM: 10, NetMrgRxbuf: 12, Version1: 12, Version1 | NetMrgRxbuf: 12, Version1 | NetHashReport: 20,
	} {
		if got := HeaderSize(f); got != want {
			t.Errorf("%v: %d bytes, want %d", f, got, want)
		}
	}
}

func TestStatusString(t *testing.T) {
	for s, want := range map[Status]string{
		0: "RESET", 0x0b: "ACKNOWLEDGE DRIVER FEATURES_OK", 0x80: "FAILED",
	} {
		if got := s.String(); got != want {
			t.Errorf("%#x: %q, want %q", uint8(s), got, want)
		}
	}
}

func TestNetHeaderLayout(t *testing.T) {
	h := NetHeader{Flags: 1, GSOType: 4, HdrLen: 0x0203, GSOSize: 0x0405, CSumStart: 0x0607, CSumOffset: 0x0809, NumBuffers: 0x0a0b}
	var b [12]byte
	h.Encode(b[:])
	if want := [12]byte{1, 4, 3, 2, 5, 4, 7, 6, 9, 8, 0xb, 0xa}; b != want {
		t.Errorf("% x, want % x", b, want)
	}
	if legacy := DecodeNetHeader(b[:10]); legacy.NumBuffers != 0 || legacy.CSumOffset != 0x0809 {
		t.Errorf("legacy header: %+v", legacy)
	}
}

func TestNetHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, "bytes")
		h := DecodeNetHeader(b)
		again := make([]byte, 12)
		h.Encode(again)
		if string(again) != string(b) {
			t.Fatalf("% x came back as % x", b, again)
		}
	})
}
