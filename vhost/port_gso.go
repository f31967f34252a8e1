package vhost

import (
	"errors"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/virtio"
)

// tcpFlags is the offset of the flags in a TCP header, and tcpCWR the one that
// answers to a sign of congestion (RFC 3168).
const tcpFlags, tcpCWR = 13, 0x80

// mustCut reports whether b is a large packet of a kind that the guest does not
// take. One that the port was not started for is none of them.
func (q *portTx) mustCut(b *mbuf.Buf) bool {
	if b.Flags&mbuf.TxTSO == 0 || !q.permits(b.Flags) {
		return false
	}
	need := virtio.NetGuestCSUM | virtio.NetGuestTSO4
	if b.Flags&mbuf.TxIPv6 != 0 {
		need = virtio.NetGuestCSUM | virtio.NetGuestTSO6
	}
	if answersCongestion(b) {
		need |= virtio.NetGuestECN // without it the guest would repeat the answer
	}
	return !q.dev.features.Has(need)
}

// answersCongestion reports whether the TCP packet b has the flag CWR.
func answersCongestion(b *mbuf.Buf) bool {
	at := int(b.L2Len) + int(b.L3Len) + tcpFlags
	return at < b.Len() && b.Bytes()[at]&tcpCWR != 0
}

// sendSegments writes b to the guest as the segments that it stands for: all of
// them, or none and then it is false. A packet that cannot be cut counts as
// dropped.
func (q *portTx) sendSegments(b *mbuf.Buf) bool {
	leave := mbuf.Flags(0)
	if q.dev.features.Has(virtio.NetGuestCSUM) {
		leave = mbuf.TxTCPChecksum
	}
	segments, err := q.gso.Segment(b, q.cache, leave)
	if err != nil {
		if errors.Is(err, offload.ErrNoBufs) {
			return false
		}
		q.dev.stats.Dropped++
		return true
	}
	defer q.cache.Put(segments) // also when the guest's memory is gone
	return q.sendWhole(segments)
}

// sendWhole writes segments of one packet to the guest, and reports whether that
// is done with.
//
// Where the guest has too few buffers at the moment, nothing is written, and it
// is false. A packet that might need more of them than a guest ever has must not
// wait for that: what fits is written, and the rest dropped.
func (q *portTx) sendWhole(segments []*mbuf.Buf) bool {
	d := q.dev
	d.copyNow() // undo then has nothing to put back but these
	stats, before := d.stats, d.progress()
	for i, seg := range segments {
		if q.send(seg, q.describe(seg)) {
			continue
		}
		// A buffer rarely takes more than four descriptors.
		need := (len(d.done) - before.buffers) * len(segments) / max(i, 1)
		if i == 0 || need <= d.ring.Size()/4 {
			d.undo(before)
			d.stats = stats
			return false
		}
		d.stats.Dropped += uint64(len(segments) - i)
		break
	}
	d.copyNow() // the segments' buffers are used again
	return true
}
