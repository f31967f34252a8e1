package vhost

import "fmt"

// request is the number of a message to the back end.
type request uint32

// The messages that this package knows.
const (
	getFeatures         request = 1
	setFeatures         request = 2
	setOwner            request = 3
	resetOwner          request = 4
	setMemTable         request = 5
	setLogBase          request = 6
	setLogFD            request = 7
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
	sendRARP            request = 19
	netSetMTU           request = 20
	setBackendReqFD     request = 21
	iotlbMsg            request = 22
	getConfig           request = 24
	setConfig           request = 25
	getInflightFD       request = 31
	setInflightFD       request = 32
	resetDevice         request = 34
	getMaxMemSlots      request = 36
	addMemReg           request = 37
	remMemReg           request = 38
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
	payloadRegion
	payloadConfig
	payloadInflight
	payloadLog
	payloadIOTLB
)

// requests gives each message its name, the body that it has on the way to the
// back end, and that of its answer or acknowledgement.
var requests = map[request]struct {
	name   string
	body   payload
	answer payload
}{
	getFeatures:         {"GET_FEATURES", payloadNone, payloadU64},
	setFeatures:         {"SET_FEATURES", payloadU64, payloadU64},
	setOwner:            {"SET_OWNER", payloadNone, payloadU64},
	resetOwner:          {"RESET_OWNER", payloadNone, payloadU64},
	setMemTable:         {"SET_MEM_TABLE", payloadTable, payloadU64},
	setLogBase:          {"SET_LOG_BASE", payloadLog, payloadU64},
	setLogFD:            {"SET_LOG_FD", payloadNone, payloadU64},
	setVringNum:         {"SET_VRING_NUM", payloadState, payloadU64},
	setVringAddr:        {"SET_VRING_ADDR", payloadAddr, payloadU64},
	setVringBase:        {"SET_VRING_BASE", payloadState, payloadU64},
	getVringBase:        {"GET_VRING_BASE", payloadState, payloadState},
	setVringKick:        {"SET_VRING_KICK", payloadU64, payloadU64},
	setVringCall:        {"SET_VRING_CALL", payloadU64, payloadU64},
	setVringErr:         {"SET_VRING_ERR", payloadU64, payloadU64},
	getProtocolFeatures: {"GET_PROTOCOL_FEATURES", payloadNone, payloadU64},
	setProtocolFeatures: {"SET_PROTOCOL_FEATURES", payloadU64, payloadU64},
	getQueueNum:         {"GET_QUEUE_NUM", payloadNone, payloadU64},
	setVringEnable:      {"SET_VRING_ENABLE", payloadState, payloadU64},
	sendRARP:            {"SEND_RARP", payloadU64, payloadU64},
	netSetMTU:           {"NET_SET_MTU", payloadU64, payloadU64},
	setBackendReqFD:     {"SET_BACKEND_REQ_FD", payloadNone, payloadU64},
	iotlbMsg:            {"IOTLB_MSG", payloadIOTLB, payloadU64},
	getConfig:           {"GET_CONFIG", payloadConfig, payloadConfig},
	setConfig:           {"SET_CONFIG", payloadConfig, payloadU64},
	getInflightFD:       {"GET_INFLIGHT_FD", payloadInflight, payloadInflight},
	setInflightFD:       {"SET_INFLIGHT_FD", payloadInflight, payloadU64},
	resetDevice:         {"RESET_DEVICE", payloadNone, payloadU64},
	getMaxMemSlots:      {"GET_MAX_MEM_SLOTS", payloadNone, payloadU64},
	addMemReg:           {"ADD_MEM_REG", payloadRegion, payloadU64},
	remMemReg:           {"REM_MEM_REG", payloadRegion, payloadU64},
	setStatus:           {"SET_STATUS", payloadU64, payloadU64},
	getStatus:           {"GET_STATUS", payloadNone, payloadU64},
}

// String gives the name that the specification has for r, without its prefix.
func (r request) String() string {
	if known, ok := requests[r]; ok {
		return known.name
	}
	return fmt.Sprintf("message %d", uint32(r))
}

// protocolFeatures is a set of features of the protocol itself.
type protocolFeatures uint64

const (
	protocolMQ          protocolFeatures = 1 << 0
	protocolLogShmFD    protocolFeatures = 1 << 1
	protocolRARP        protocolFeatures = 1 << 2
	protocolReplyAck    protocolFeatures = 1 << 3
	protocolNetMTU      protocolFeatures = 1 << 4
	protocolBackendReq  protocolFeatures = 1 << 5
	protocolConfig      protocolFeatures = 1 << 9
	protocolInflight    protocolFeatures = 1 << 12
	protocolResetDevice protocolFeatures = 1 << 13
	protocolMemSlots    protocolFeatures = 1 << 15
	protocolStatus      protocolFeatures = 1 << 16

	// knownProtocol are the protocol features that both halves here have.
	knownProtocol = protocolMQ | protocolReplyAck | protocolNetMTU | protocolBackendReq |
		protocolConfig | protocolInflight | protocolMemSlots | protocolStatus
	// backendProtocol are those of the back end: it can do what a virtual
	// machine asks for, which the front end here is not.
	backendProtocol = knownProtocol | protocolLogShmFD | protocolRARP | protocolResetDevice
)

func (f protocolFeatures) has(want protocolFeatures) bool { return f&want == want }
