package vhost

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Messages as they go over the wire.
var wire = []struct {
	name string
	m    message
	hex  string
}{
	{"get features", message{request: getFeatures, flags: flagVersion}, "010000000100000000000000"},
	{"its answer", message{request: getFeatures, flags: flagVersion | flagReply, u64: 0x0d7c66ffcb},
		"010000000500000008000000" + "cbff667c0d000000"},
	{"status, to be acknowledged", message{request: setStatus, flags: flagVersion | flagNeedReply, u64: 0x0b},
		"270000000900000008000000" + "0b00000000000000"},
	{"enable", message{request: setVringEnable, flags: flagVersion, state: vringState{1, 1}},
		"120000000100000008000000" + "0100000001000000"},
	{"base, answered", message{request: getVringBase, flags: flagVersion | flagReply, state: vringState{2, 0x1234}},
		"0b0000000500000008000000" + "0200000034120000"},
	{"addresses", message{request: setVringAddr, flags: flagVersion, addr: vringAddr{1, 0, 0x1000, 0x3000, 0x2000, 0}},
		"090000000100000028000000" + "0100000000000000" + "0010000000000000" + "0030000000000000" + "0020000000000000" + "0000000000000000"},
	{"memory", message{request: setMemTable, flags: flagVersion | flagNeedReply, table: []memRegion{{0x1180200000, 0x8000000, 0x1180200000, 0x40}}},
		"050000000900000028000000" + "0100000000000000" + "0000208011000000" + "0000000800000000" + "0000208011000000" + "4000000000000000"},
	{"one region", message{request: addMemReg, flags: flagVersion, table: []memRegion{{1, 2, 3, 4}}},
		"250000000100000028000000" + "0000000000000000" + "0100000000000000" + "0200000000000000" + "0300000000000000" + "0400000000000000"},
	{"configuration asked for", message{request: getConfig, flags: flagVersion, config: configSpace{offset: 6, bytes: []byte{0, 0}}},
		"18000000010000000e000000" + "06000000" + "02000000" + "00000000" + "0000"},
	{"and given", message{request: getConfig, flags: flagVersion | flagReply, config: configSpace{offset: 6, bytes: []byte{1, 0}}},
		"18000000050000000e000000" + "06000000" + "02000000" + "00000000" + "0100"},
	{"and refused", message{request: getConfig, flags: flagVersion | flagReply}, "180000000500000000000000"},
	{"inflight memory", message{request: getInflightFD, flags: flagVersion | flagReply, inflight: inflightArea{0x1000, 0x40, 2, 256}},
		"1f0000000500000018000000" + "0010000000000000" + "4000000000000000" + "0200" + "0001" + "00000000"},
	{"log", message{request: setLogBase, flags: flagVersion, log: logArea{0x8000, 0x40}},
		"060000000100000010000000" + "0080000000000000" + "4000000000000000"},
	{"log descriptor", message{request: setLogFD, flags: flagVersion}, "070000000100000000000000"},
	{"announcement", message{request: sendRARP, flags: flagVersion, u64: 0x010000005452}, "130000000100000008000000" + "5254000000010000"},
	{"reset", message{request: resetDevice, flags: flagVersion}, "220000000100000000000000"},
	{"translation", message{request: iotlbMsg, flags: flagVersion | flagNeedReply, iotlb: iotlbMessage{0x1000, 0x2000, 0x7f0000003000, mayRead | mayWrite, iotlbUpdate}},
		"160000000900000020000000" + "0010000000000000" + "0020000000000000" + "00300000007f0000" + "0302000000000000"},
	{"MTU", message{request: netSetMTU, flags: flagVersion, u64: 1500}, "140000000100000008000000" + "dc05000000000000"},
	{"no memory", message{request: setMemTable, flags: flagVersion}, "050000000100000008000000" + "0000000000000000"},
}

// decode reads a whole message from b.
func decode(b []byte) (message, error) {
	h, err := decodeHeader([headerSize]byte(b))
	if err != nil {
		return message{}, err
	}
	return decodeBody(h, b[headerSize:])
}

func TestMessages(t *testing.T) {
	for _, tt := range wire {
		want, _ := hex.DecodeString(tt.hex)
		if diff := cmp.Diff(want, tt.m.encode()); diff != "" {
			t.Errorf("%s: encode (-want +got):\n%s", tt.name, diff)
		}
		got, err := decode(want)
		if err != nil {
			t.Errorf("%s: decode: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.m, got, cmp.AllowUnexported(message{}, vringState{}, vringAddr{}, memRegion{}, configSpace{}, inflightArea{}, logArea{}, iotlbMessage{})); diff != "" {
			t.Errorf("%s: decode (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestB28BadMessages(t *testing.T) {
	tests := []struct{ name, hex string }{
		{"version 0", "010000000000000000000000"},
		{"version 2", "010000000200000000000000"},
		{"size 2^32-1", "0100000001000000ffffffff"},
		{"size over the limit", "630000000100000001100000"},
		{"a body where none belongs", "010000000100000008000000" + "0000000000000000"},
		{"number of 7 bytes", "020000000100000007000000" + "00000000000000"},
		{"state of 4 bytes", "080000000100000004000000" + "00000000"},
		{"addresses of 8 bytes", "090000000100000008000000" + "0000000000000000"},
		{"table without a count", "050000000100000004000000" + "00000000"},
		{"table shorter than its count", "050000000100000008000000" + "0100000000000000"},
		{"9 regions", "050000000100000008000000" + "0900000000000000"},
		{"2^32-1 regions", "050000000100000008000000" + "ffffffff00000000"},
		{"region of 32 bytes", "250000000100000020000000" + "00000000000000000000000000000000" + "00000000000000000000000000000000"},
		{"configuration without a head", "180000000100000000000000"},
		{"configuration that says 3 of 2 bytes", "18000000010000000e000000" + "00000000" + "03000000" + "00000000" + "0000"},
		{"configuration that says 4 GiB", "18000000010000000e000000" + "00000000" + "ffffffff" + "00000000" + "0000"},
		{"inflight memory of 8 bytes", "1f0000000100000008000000" + "0000000000000000"},
		{"empty answer", "010000000500000000000000"},
	}
	for _, tt := range tests {
		b, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := decode(b); err == nil {
			t.Errorf("%s: decoded to %+v", tt.name, m)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, tt := range wire {
		b, _ := hex.DecodeString(tt.hex)
		f.Add(b)
	}
	f.Add(append([]byte{99, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0}, "what"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerSize {
			return
		}
		h, err := decodeHeader([headerSize]byte(b))
		if err != nil || int(h.size) != len(b)-headerSize {
			return
		}
		m, err := decodeBody(h, b[headerSize:])
		if err != nil || m.body() == payloadUnknown {
			return
		}
		// Padding, which may be missing, and counts that say little.
		switch {
		case m.body() == payloadInflight:
			b = append(b[:headerSize+20], 0, 0, 0, 0)
			b[8] = 24
		case m.body() == payloadRegion:
			clear(b[headerSize : headerSize+8])
		case m.body() == payloadIOTLB:
			clear(b[headerSize+26:])
		}
		again := m.encode()
		if m.request == setMemTable && !m.isReply() {
			binary.LittleEndian.PutUint32(b[headerSize+4:], 0) // padding
		}
		if !bytes.Equal(b, again) {
			t.Errorf("encode after decode: %x\nfrom                %x", again, b)
		}
	})
}
