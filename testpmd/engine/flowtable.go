package engine

import (
	"hash/maphash"

	"vionet/mbuf"
)

// flowKey is what the packets of a flow have in common: 32 bytes of addresses,
// then the TCP or UDP ports, the protocol and the family. VLAN tags are not part
// of it. Fragments are told apart without the ports, which only the first one
// has; all that is not IP is one flow.
type flowKey [40]byte

const (
	keyPorts  = 32
	keyNext   = 36
	keyFamily = 37
)

// set makes k the key of a packet.
func (k *flowKey) set(p *mbuf.Buf) {
	*k = flowKey{}
	frame := p.Bytes()
	h, ok := parse(frame, p.PacketLen())
	if !ok {
		return
	}
	k[keyFamily] = 4
	if h.ipv6 {
		k[keyFamily] = 6
	}
	copy(k[:], h.addrs(frame))
	k[keyNext] = uint8(h.next)
	if !h.fragment {
		copy(k[keyPorts:], h.ports(frame))
	}
}

// flowEntries is the number of flows that a table knows, and flowWays that of
// the places where one of them may be.
const (
	flowEntries = 8192
	flowWays    = 2
)

// flowTable is an exact-match cache of flows. A flow that finds no place takes
// that of another, whose next packet then counts as one of a new flow.
type flowTable struct {
	seed    maphash.Seed
	burst   uint64 // the number of the burst that is being sorted, from 1
	key     flowKey
	entries [flowEntries]flowEntry
}

type flowEntry struct {
	key   flowKey
	burst uint64 // in which the flow was seen last; 0: the entry is free
	batch int    // its batch in that burst
}

// find gives the flow of a packet, and whether the table knew it.
func (t *flowTable) find(p *mbuf.Buf) (f *flowEntry, known bool) {
	t.key.set(p)
	set := int(maphash.Bytes(t.seed, t.key[:])%(flowEntries/flowWays)) * flowWays
	oldest := &t.entries[set]
	for i := set; i < set+flowWays; i++ {
		f := &t.entries[i]
		if f.burst != 0 && f.key == t.key {
			return f, true
		}
		if f.burst < oldest.burst {
			oldest = f
		}
	}
	oldest.key, oldest.burst = t.key, 0
	return oldest, false
}
