package engine

import "vionet/mbuf"

// FiveTupleSwap sends each packet back to where it came from: it swaps source
// and destination of the MAC, IP and L4 addresses. That leaves every checksum
// right.
var FiveTupleSwap = &Engine{Name: "5tswap", Forward: forwardFiveTupleSwap}

func forwardFiveTupleSwap(s *Stream) int {
	pkts := s.receiveOwn()
	if len(pkts) == 0 {
		return 0
	}
	for _, b := range pkts {
		swapFiveTuple(b)
	}
	s.send(s.plainRequests(pkts))
	return len(pkts)
}

func swapFiveTuple(b *mbuf.Buf) {
	frame := b.Bytes()
	h, ok := parse(frame, b.PacketLen())
	swapMACs(frame)
	if !ok {
		return
	}
	h.swapIP(frame)
	if ports := h.ports(frame); ports != nil {
		src := [2]byte(ports[0:2])
		copy(ports[0:2], ports[2:4])
		copy(ports[2:4], src[:])
	}
}

// swapIP swaps the addresses of the IP header.
func (h *headers) swapIP(frame []byte) {
	addrs := h.addrs(frame)
	if h.ipv6 {
		src := [16]byte(addrs[0:16])
		copy(addrs[0:16], addrs[16:32])
		copy(addrs[16:32], src[:])
		return
	}
	src := [4]byte(addrs[0:4])
	copy(addrs[0:4], addrs[4:8])
	copy(addrs[4:8], src[:])
}
