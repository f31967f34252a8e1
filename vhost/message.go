package vhost

import (
	"encoding/binary"
	"fmt"
)

// request is the number of a message.
type request uint32

// The messages that this package knows.
const (
	getFeatures         request = 1
	setFeatures         request = 2
	setOwner            request = 3
	resetOwner          request = 4
	setMemTable         request = 5
	setVringNum         request = 8
	setVringAddr        request = 9
	setVringBase        request = 10
	getVringBase        request = 11
	setVringKick        request = 12
	setVringCall        request = 13
	setVringErr         request = 14
	getProtocolFeatures request = 15
	setProtocolFeatures request = 16
	getQueueNum         request = 17
	setVringEnable      request = 18
	setStatus           request = 39
	getStatus           request = 40
)

// payload is the kind of a message's body.
type payload int

const (
	payloadUnknown payload = iota // a message that this package does not know
	payloadNone
	payloadU64
	payloadState
	payloadAddr
	payloadTable
)

// requests gives each message its name and the body that it has on the way to
// the back end.
var requests = map[request]struct {
	name string
	body payload
}{
	getFeatures:         {"GET_FEATURES", payloadNone},
	setFeatures:         {"SET_FEATURES", payloadU64},
	setOwner:            {"SET_OWNER", payloadNone},
	resetOwner:          {"RESET_OWNER", payloadNone},
	setMemTable:         {"SET_MEM_TABLE", payloadTable},
	setVringNum:         {"SET_VRING_NUM", payloadState},
	setVringAddr:        {"SET_VRING_ADDR", payloadAddr},
	setVringBase:        {"SET_VRING_BASE", payloadState},
	getVringBase:        {"GET_VRING_BASE", payloadState},
	setVringKick:        {"SET_VRING_KICK", payloadU64},
	setVringCall:        {"SET_VRING_CALL", payloadU64},
	setVringErr:         {"SET_VRING_ERR", payloadU64},
	getProtocolFeatures: {"GET_PROTOCOL_FEATURES", payloadNone},
	setProtocolFeatures: {"SET_PROTOCOL_FEATURES", payloadU64},
	getQueueNum:         {"GET_QUEUE_NUM", payloadNone},
	setVringEnable:      {"SET_VRING_ENABLE", payloadState},
	setStatus:           {"SET_STATUS", payloadU64},
	getStatus:           {"GET_STATUS", payloadNone},
}

// String gives the name that the specification has for r, without its prefix.
func (r request) String() string {
	if known, ok := requests[r]; ok {
		return known.name
	}
	return fmt.Sprintf("message %d", uint32(r))
}

// Bits of a message's flags. The lowest two hold the version.
const (
	flagVersion     uint32 = 1
	flagVersionMask uint32 = 3
	flagReply       uint32 = 1 << 2
	flagNeedReply   uint32 = 1 << 3
)

// protocolFeatures is a set of features of the protocol itself.
type protocolFeatures uint64

const (
	protocolMQ       protocolFeatures = 1 << 0
	protocolReplyAck protocolFeatures = 1 << 3
	protocolStatus   protocolFeatures = 1 << 16

	// knownProtocol are the protocol features that both halves here have.
	knownProtocol = protocolMQ | protocolReplyAck | protocolStatus
)

func (f protocolFeatures) has(want protocolFeatures) bool { return f&want == want }

// Fields of the body of SET_VRING_KICK, CALL and ERR.
const (
	vringIndexMask uint64 = 0xff
	vringNoFD      uint64 = 1 << 8 // no descriptor comes along
)

// Sizes in bytes, and limits of the protocol.
const (
	headerSize  = 12
	regionSize  = 32
	maxRegions  = 8 // of a memory table
	maxFDs      = 8 // that come with one message
	maxBodySize = 4096
)

// message is one message without its file descriptors. Which field holds its
// body follows from the request and from the reply flag.
type message struct {
	request request
	flags   uint32
	u64     uint64
	state   vringState
	addr    vringAddr
	table   []memRegion
}

// vringState is the body of the messages about one number of a vring.
type vringState struct{ index, num uint32 }

// vringAddr says where a vring is, in addresses of the front end's process.
type vringAddr struct {
	index, flags           uint32
	desc, used, avail, log uint64
}

// memRegion is one region of a memory table; the descriptor of its file comes
// with the message. All but the file offset are in bytes of address space.
type memRegion struct {
	guest  uint64 // the device address of its start
	size   uint64
	user   uint64 // the address of its start in the front end's process
	offset uint64 // of its start in the file
}

func (m *message) isReply() bool { return m.flags&flagReply != 0 }

// body is the kind of m's body. A reply carries one number, but for the reply
// of GET_VRING_BASE.
func (m *message) body() payload {
	if m.isReply() && m.request != getVringBase {
		return payloadU64
	}
	return requests[m.request].body
}

// header is the fixed part of a message.
type header struct {
	request request
	flags   uint32
	size    uint32 // of the body, in bytes
}

// decodeHeader reads a header and checks all that can be checked before the
// body is there.
func decodeHeader(b [headerSize]byte) (header, error) {
	h := header{
		request: request(binary.LittleEndian.Uint32(b[0:])),
		flags:   binary.LittleEndian.Uint32(b[4:]),
		size:    binary.LittleEndian.Uint32(b[8:]),
	}
	if v := h.flags & flagVersionMask; v != flagVersion {
		return header{}, fmt.Errorf("%v of protocol version %d: only 1 is known", h.request, v)
	}
	if h.size > maxBodySize {
		return header{}, fmt.Errorf("%v with a body of %d bytes: at most %d are accepted", h.request, h.size, maxBodySize)
	}
	return h, nil
}

// decodeBody reads the body that belongs to h. The body of an unknown message
// is dropped.
func decodeBody(h header, b []byte) (message, error) {
	m := message{request: h.request, flags: h.flags}
	kind := m.body()
	wrongSize := fmt.Errorf("%v with a body of %d bytes, which is not its size", h.request, len(b))
	le := binary.LittleEndian
	switch kind {
	case payloadNone:
		if len(b) != 0 {
			return message{}, wrongSize
		}
	case payloadU64:
		if len(b) != 8 {
			return message{}, wrongSize
		}
		m.u64 = le.Uint64(b)
	case payloadState:
		if len(b) != 8 {
			return message{}, wrongSize
		}
		m.state = vringState{index: le.Uint32(b), num: le.Uint32(b[4:])}
	case payloadAddr:
		if len(b) != 40 {
			return message{}, wrongSize
		}
		m.addr = vringAddr{
			index: le.Uint32(b), flags: le.Uint32(b[4:]),
			desc: le.Uint64(b[8:]), used: le.Uint64(b[16:]),
			avail: le.Uint64(b[24:]), log: le.Uint64(b[32:]),
		}
	case payloadTable:
		if len(b) < 8 {
			return message{}, wrongSize
		}
		n := le.Uint32(b)
		if n > maxRegions {
			return message{}, fmt.Errorf("%v with %d regions: at most %d are possible", h.request, n, maxRegions)
		}
		if len(b) != 8+regionSize*int(n) {
			return message{}, wrongSize
		}
		for r := b[8:]; len(r) > 0; r = r[regionSize:] {
			m.table = append(m.table, memRegion{
				guest: le.Uint64(r), size: le.Uint64(r[8:]),
				user: le.Uint64(r[16:]), offset: le.Uint64(r[24:]),
			})
		}
	}
	return m, nil
}

// encode gives m as it goes over the socket.
func (m *message) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, headerSize, headerSize+8+maxRegions*regionSize)
	switch m.body() {
	case payloadU64:
		b = le.AppendUint64(b, m.u64)
	case payloadState:
		b = le.AppendUint32(b, m.state.index)
		b = le.AppendUint32(b, m.state.num)
	case payloadAddr:
		a := &m.addr
		b = le.AppendUint32(b, a.index)
		b = le.AppendUint32(b, a.flags)
		for _, v := range []uint64{a.desc, a.used, a.avail, a.log} {
			b = le.AppendUint64(b, v)
		}
	case payloadTable:
		b = le.AppendUint64(b, uint64(len(m.table)))
		for _, r := range m.table {
			for _, v := range []uint64{r.guest, r.size, r.user, r.offset} {
				b = le.AppendUint64(b, v)
			}
		}
	}
	le.PutUint32(b[0:], uint32(m.request))
	le.PutUint32(b[4:], m.flags&^flagVersionMask|flagVersion)
	le.PutUint32(b[8:], uint32(len(b)-headerSize))
	return b
}
