package netstack

import (
	"sync"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"vionet/mbuf"
)

// trust is how the stack learns which received packets to verify. It does not ask
// the packet but, at each delivery, the endpoint's capabilities, which speak of
// all packets alike. So packets that nobody vouches for are delivered while no
// others are, and meanwhile the endpoint has not that capability: then the stack
// verifies. A reassembled datagram counts as its fragments did.
type trust struct {
	asked atomic.Bool // an offload that vouches is on: otherwise nothing is vouched for
	mu    sync.RWMutex
	doubt atomic.Bool
}

// vouches reports whether packets delivered now count as verified.
func (t *trust) vouches() bool { return t.asked.Load() && !t.doubt.Load() }

// begin is called before the delivery of packets that are all vouched for, or
// none, and end after it.
func (t *trust) begin(vouched bool) {
	switch {
	case !t.asked.Load():
	case vouched:
		t.mu.RLock()
	default:
		t.mu.Lock()
		t.doubt.Store(true)
	}
}

func (t *trust) end(vouched bool) {
	switch {
	case !t.asked.Load():
	case vouched:
		t.mu.RUnlock()
	default:
		t.doubt.Store(false)
		t.mu.Unlock()
	}
}

// vouched reports whether the checksums of a frame are good: the device says so
// of the L4 checksum, and that of the IPv4 header, which it says nothing about,
// is looked at here.
func vouched(flags mbuf.Flags, eth header.Ethernet) bool {
	if flags&(mbuf.RxL4Good|mbuf.RxL4None) == 0 {
		return false
	}
	if eth.Type() != header.IPv4ProtocolNumber {
		return true
	}
	ip := header.IPv4(eth[header.EthernetMinimumSize:])
	if len(ip) < header.IPv4MinimumSize {
		return false
	}
	size := int(ip.HeaderLength())
	return size >= header.IPv4MinimumSize && size <= len(ip) && ip.IsChecksumValid()
}
