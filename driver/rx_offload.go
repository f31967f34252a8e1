package driver

import (
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

const rxChecksums = port.RxUDPCksum | port.RxTCPCksum | port.RxTCPLRO

// applyOffloads does what the Rx offloads ask for with each packet, drops the
// packets whose header makes no sense, and closes the gaps they leave. It
// returns the number and the bytes of those that remain.
func (q *RxQueue) applyOffloads(pkts []*mbuf.Buf) (n int, bytes uint64) {
	for _, b := range pkts {
		if q.offloads&rxChecksums != 0 && !q.readHeader(b) {
			q.drop(b)
			continue
		}
		if q.offloads&port.RxRSSHash != 0 {
			readHash(b)
		}
		if q.offloads&port.RxVLANStrip != 0 {
			stripVLAN(b)
		}
		bytes += uint64(b.PacketLen())
		pkts[n] = b
		n++
	}
	return n, bytes
}

// readHeader turns the virtio-net header into b's flags (virtio 1.2, section
// 5.1.6.4). It reports whether the header is one that was negotiated and that
// fits the packet.
func (q *RxQueue) readHeader(b *mbuf.Buf) bool {
	h := virtio.DecodeNetHeader(b.Head(q.hdrLen))
	switch {
	case h.Flags&virtio.HdrNeedsCSum != 0:
		if int(h.CSumStart)+int(h.CSumOffset)+2 > b.PacketLen() {
			return false
		}
		b.Flags |= mbuf.RxL4None
		b.CSumStart, b.CSumOffset = h.CSumStart, h.CSumOffset
	case h.Flags&virtio.HdrDataValid != 0:
		b.Flags |= mbuf.RxL4Good
	}
	if h.GSOType == virtio.GSONone {
		return true
	}
	if !q.joins(h.GSOType) || h.GSOSize == 0 {
		return false
	}
	b.Flags |= mbuf.RxLRO
	b.SegSize = h.GSOSize
	return true
}

// joins reports whether packets of that kind may come put together.
func (q *RxQueue) joins(gsoType uint8) bool {
	switch gsoType {
	case virtio.GSOTCPv4, virtio.GSOTCPv6, virtio.GSOTCPv4 | virtio.GSOECN, virtio.GSOTCPv6 | virtio.GSOECN:
		return q.offloads&port.RxTCPLRO != 0
	case virtio.GSOUDPL4:
		return q.uso
	default:
		return false
	}
}

// readHash takes the hash that the device computed, if it did, out of the
// header. The header has room for it where the offload was negotiated.
func readHash(b *mbuf.Buf) {
	if hash, ok := virtio.DecodeHash(b.Head(virtio.NetHeaderHashSize)); ok {
		b.Hash = hash
		b.Flags |= mbuf.RxHash
	}
}
