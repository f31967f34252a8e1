package virtio

import "encoding/binary"

// Sizes in bytes of the header in front of every frame (section 5.1.6). Which
// one is in use follows from the negotiated features: see HeaderSize.
const (
	NetHeaderLegacySize = 10 // no num_buffers field
	NetHeaderSize       = 12
	NetHeaderHashSize   = 20 // with the three fields of HASH_REPORT
)

// HeaderSize gives the size in bytes of the network header under the
// negotiated features.
func HeaderSize(negotiated Features) int {
	switch {
	case negotiated.Has(NetHashReport):
		return NetHeaderHashSize
	case negotiated&(Version1|NetMrgRxbuf) != 0:
		return NetHeaderSize
	default:
		return NetHeaderLegacySize
	}
}

// Bits of NetHeader.Flags.
const (
	HdrNeedsCSum uint8 = 1
	HdrDataValid uint8 = 2
	HdrRSCInfo   uint8 = 4
)

// Values of NetHeader.GSOType. GSOECN is a bit set beside one of the others.
const (
	GSONone  uint8 = 0
	GSOTCPv4 uint8 = 1
	GSOUDP   uint8 = 3
	GSOTCPv6 uint8 = 4
	GSOUDPL4 uint8 = 5
	GSOECN   uint8 = 0x80
)

// NetHeader is struct virtio_net_hdr (section 5.1.6), decoded. Offsets and
// lengths are in bytes.
type NetHeader struct {
	Flags      uint8  // HdrNeedsCSum and the like
	GSOType    uint8  // GSONone and the like
	HdrLen     uint16 // Ethernet + IP + L4 headers, a hint
	GSOSize    uint16 // payload bytes of a segment
	CSumStart  uint16 // where the checksum starts, from the frame's start
	CSumOffset uint16 // where the sum goes, from CSumStart
	NumBuffers uint16 // buffers this frame was spread over; Rx only
}

// Encode writes h to the front of b, which holds at least
// NetHeaderLegacySize bytes; num_buffers is written when b has room for it.
func (h *NetHeader) Encode(b []byte) {
	_ = b[9]
	b[0], b[1] = h.Flags, h.GSOType
	binary.LittleEndian.PutUint16(b[2:], h.HdrLen)
	binary.LittleEndian.PutUint16(b[4:], h.GSOSize)
	binary.LittleEndian.PutUint16(b[6:], h.CSumStart)
	binary.LittleEndian.PutUint16(b[8:], h.CSumOffset)
	if len(b) >= NetHeaderSize {
		binary.LittleEndian.PutUint16(b[10:], h.NumBuffers)
	}
}

// DecodeNetHeader reads a header from the front of b, which holds at least
// NetHeaderLegacySize bytes; NumBuffers is 0 when b has no such field.
func DecodeNetHeader(b []byte) NetHeader {
	_ = b[9]
	h := NetHeader{
		Flags:      b[0],
		GSOType:    b[1],
		HdrLen:     binary.LittleEndian.Uint16(b[2:]),
		GSOSize:    binary.LittleEndian.Uint16(b[4:]),
		CSumStart:  binary.LittleEndian.Uint16(b[6:]),
		CSumOffset: binary.LittleEndian.Uint16(b[8:]),
	}
	if len(b) >= NetHeaderSize {
		h.NumBuffers = binary.LittleEndian.Uint16(b[10:])
	}
	return h
}
