package driver

import (
	"math/bits"

	"vionet/mbuf"
	"vionet/ring"
)

// bufTable holds the packets that the device has, by the head of their chain.
// Its length is a power of two, so that a head that is masked with it needs no
// check: heads are from the ring's private memory, never the device's.
type bufTable []*mbuf.Buf

// newBufTable makes a table for a ring of size descriptors.
func newBufTable(size int) bufTable { return make(bufTable, 1<<bits.Len(uint(size-1))) }

// put remembers packets by their heads, of which there are as many.
func (t bufTable) put(heads []uint16, pkts []*mbuf.Buf) {
	if len(t) == 0 {
		return // no table is, but the compiler does not know
	}
	pkts, mask := pkts[:len(heads)], len(t)-1
	for i, head := range heads {
		t[int(head)&mask] = pkts[i]
	}
}

// find puts the packets of completions into pkts, which is long enough.
func (t bufTable) find(used []ring.Completion, pkts []*mbuf.Buf) {
	if len(t) == 0 {
		return
	}
	pkts, mask := pkts[:len(used)], len(t)-1
	for i, c := range used {
		pkts[i] = t[int(c.Head)&mask]
	}
}
