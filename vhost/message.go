package vhost

import (
	"encoding/binary"
	"fmt"
)

// Bits of a message's flags. The lowest two hold the version.
const (
	flagVersion     uint32 = 1
	flagVersionMask uint32 = 3
	flagReply       uint32 = 1 << 2
	flagNeedReply   uint32 = 1 << 3
)

// Fields of the body of SET_VRING_KICK, CALL and ERR.
const (
	vringIndexMask uint64 = 0xff
	vringNoFD      uint64 = 1 << 8 // no descriptor comes along
)

// Sizes in bytes, and limits of the protocol.
const (
	headerSize  = 12
	regionSize  = 32
	configHead  = 12 // before the bytes of the configuration space
	iotlbSize   = 32
	maxRegions  = 8 // of a memory table
	maxFDs      = 8 // that come with one message
	maxBodySize = 4096
)

// message is one message without its file descriptors. Which field holds its
// body follows from the request and from the reply flag.
type message struct {
	request  request
	flags    uint32
	u64      uint64
	state    vringState
	addr     vringAddr
	table    []memRegion // one region in messages about one
	config   configSpace
	inflight inflightArea
	log      logArea
	iotlb    iotlbMessage
}

// vringState is the body of the messages about one number of a vring.
type vringState struct{ index, num uint32 }

// vringAddr says where a vring is, in addresses of the front end's process.
type vringAddr struct {
	index, flags           uint32
	desc, used, avail, log uint64
}

// vringLog is the flag of an address that says that the back end notes what it
// writes to the vring, at the guest-physical address in log.
const vringLog uint32 = 1 << 0

// memRegion is one region of a memory table; the descriptor of its file comes
// with the message. All but the file offset are in bytes of address space.
type memRegion struct {
	guest  uint64 // the device address of its start
	size   uint64
	user   uint64 // the address of its start in the front end's process
	offset uint64 // of its start in the file
}

// configSpace is a piece of the device's configuration space.
type configSpace struct {
	offset, flags uint32
	bytes         []byte
}

// inflightArea is memory in which a back end notes what it works on; the
// descriptor of its file comes with the message. Size and offset in the file
// are in bytes.
type inflightArea struct {
	size, offset      uint64
	queues, queueSize uint16
}

// logArea is the memory of a log of dirty pages; the descriptor of its file
// comes with the message. Size and offset in the file are in bytes.
type logArea struct{ size, offset uint64 }

func (m *message) isReply() bool { return m.flags&flagReply != 0 }

// body is the kind of m's body. What is acknowledged may be unknown.
func (m *message) body() payload {
	known, ok := requests[m.request]
	switch {
	case !m.isReply():
		return known.body
	case !ok:
		return payloadU64
	default:
		return known.answer
	}
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
