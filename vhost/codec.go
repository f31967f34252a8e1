package vhost

import (
	"encoding/binary"
	"fmt"
)

// encode gives m as it goes over the socket.
func (m *message) encode() []byte {
	b := make([]byte, headerSize, headerSize+8+maxRegions*regionSize)
	b = m.appendBody(b)
	le := binary.LittleEndian
	le.PutUint32(b[0:], uint32(m.request))
	le.PutUint32(b[4:], m.flags&^flagVersionMask|flagVersion)
	le.PutUint32(b[8:], uint32(len(b)-headerSize))
	return b
}

func (m *message) appendBody(b []byte) []byte {
	le := binary.LittleEndian
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
		b = appendRegions(b, m.table)
	case payloadRegion:
		b = le.AppendUint64(b, 0) // padding
		b = appendRegions(b, m.table)
	case payloadConfig:
		if m.isReply() && len(m.config.bytes) == 0 {
			return b // there is no such thing
		}
		b = le.AppendUint32(b, m.config.offset)
		b = le.AppendUint32(b, uint32(len(m.config.bytes)))
		b = le.AppendUint32(b, m.config.flags)
		b = append(b, m.config.bytes...)
	case payloadInflight:
		b = le.AppendUint64(b, m.inflight.size)
		b = le.AppendUint64(b, m.inflight.offset)
		b = le.AppendUint16(b, m.inflight.queues)
		b = le.AppendUint16(b, m.inflight.queueSize)
		b = le.AppendUint32(b, 0) // padding
	case payloadLog:
		b = le.AppendUint64(b, m.log.size)
		b = le.AppendUint64(b, m.log.offset)
	case payloadIOTLB:
		b = m.iotlb.append(b)
	}
	return b
}

func appendRegions(b []byte, table []memRegion) []byte {
	for _, r := range table {
		for _, v := range []uint64{r.guest, r.size, r.user, r.offset} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}

// decodeBody reads the body that belongs to h. The body of an unknown message
// is dropped.
func decodeBody(h header, b []byte) (message, error) {
	m := message{request: h.request, flags: h.flags}
	le := binary.LittleEndian
	ok := true
	switch m.body() {
	case payloadNone:
		ok = len(b) == 0
	case payloadU64:
		if ok = len(b) == 8; ok {
			m.u64 = le.Uint64(b)
		}
	case payloadState:
		if ok = len(b) == 8; ok {
			m.state = vringState{index: le.Uint32(b), num: le.Uint32(b[4:])}
		}
	case payloadAddr:
		if ok = len(b) == 40; ok {
			m.addr = vringAddr{
				index: le.Uint32(b), flags: le.Uint32(b[4:]),
				desc: le.Uint64(b[8:]), used: le.Uint64(b[16:]),
				avail: le.Uint64(b[24:]), log: le.Uint64(b[32:]),
			}
		}
	case payloadTable:
		if ok = len(b) >= 8; ok {
			n := le.Uint32(b)
			if n > maxRegions {
				return message{}, fmt.Errorf("%v with %d regions: at most %d are possible", h.request, n, maxRegions)
			}
			ok = len(b) == 8+regionSize*int(n)
			m.table = decodeRegions(b[8:])
		}
	case payloadRegion:
		if ok = len(b) == 8+regionSize; ok {
			m.table = decodeRegions(b[8:])
		}
	case payloadConfig:
		m.config, ok = decodeConfig(b)
		if m.isReply() {
			ok = len(b) == 0 || ok && len(m.config.bytes) > 0
		}
	case payloadInflight:
		// The four bytes that complete it to a multiple of 8 may be missing.
		if ok = len(b) == 20 || len(b) == 24; ok {
			m.inflight = inflightArea{
				size: le.Uint64(b), offset: le.Uint64(b[8:]),
				queues: le.Uint16(b[16:]), queueSize: le.Uint16(b[18:]),
			}
		}
	case payloadLog:
		if ok = len(b) == 16; ok {
			m.log = logArea{size: le.Uint64(b), offset: le.Uint64(b[8:])}
		}
	case payloadIOTLB:
		if ok = len(b) == iotlbSize; ok {
			m.iotlb = decodeIOTLB(b)
		}
	}
	if !ok {
		return message{}, fmt.Errorf("%v with a body of %d bytes, which is not its size", h.request, len(b))
	}
	return m, nil
}

// decodeRegions reads whole regions.
func decodeRegions(b []byte) (table []memRegion) {
	le := binary.LittleEndian
	for ; len(b) >= regionSize; b = b[regionSize:] {
		table = append(table, memRegion{
			guest: le.Uint64(b), size: le.Uint64(b[8:]),
			user: le.Uint64(b[16:]), offset: le.Uint64(b[24:]),
		})
	}
	return table
}

func decodeConfig(b []byte) (configSpace, bool) {
	if len(b) < configHead {
		return configSpace{}, false
	}
	le := binary.LittleEndian
	c := configSpace{offset: le.Uint32(b), flags: le.Uint32(b[8:]), bytes: b[configHead:]}
	return c, int64(le.Uint32(b[4:])) == int64(len(c.bytes))
}
