package engine

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Filter tells frames that people want to see from the others. The zero Filter
// lets all pass.
type Filter struct{ terms []term }

// term is one condition, which reads where the headers are.
type term func(frame []byte, h *headers, isIP bool) bool

// FilterSyntax is how a filter is written.
const FilterSyntax = `TERM [and TERM]*, where TERM is "host ADDRESS", "port N", "tcp", "udp", "sctp", "icmp", "icmp6", "arp", "ip" or "ip6"`

// protocols are the words for protocols that stand behind IP.
var protocols = map[string]struct {
	ipv6, ipv4 bool
	next       int
}{
	"tcp": {true, true, protoTCP}, "udp": {true, true, protoUDP}, "sctp": {true, true, protoSCTP},
	"icmp": {false, true, protoICMP}, "icmp6": {true, false, protoICMPv6},
}

// etherTypes are the words for protocols that stand behind Ethernet.
var etherTypes = map[string]int{"arp": etherARP, "ip": etherIPv4, "ip6": etherIPv6}

// ParseFilter reads a filter: see FilterSyntax. Without words it lets all frames
// pass.
func ParseFilter(words []string) (Filter, error) {
	var f Filter
	for rest := words; len(rest) > 0; {
		if len(f.terms) > 0 {
			if rest[0] != "and" {
				return f, fmt.Errorf("filter %q: %q where \"and\" was expected", words, rest[0])
			}
			rest = rest[1:]
		}
		t, n, err := parseTerm(rest)
		if err != nil {
			return f, fmt.Errorf("filter %q: %w", words, err)
		}
		f.terms = append(f.terms, t)
		rest = rest[n:]
	}
	return f, nil
}

// parseTerm reads the term at the front of words and tells how long it is.
func parseTerm(words []string) (term, int, error) {
	words = append(slices.Clone(words), "", "")
	word, value := words[0], words[1]
	if proto, ok := protocols[word]; ok {
		return func(_ []byte, h *headers, isIP bool) bool {
			return isIP && h.next == proto.next && (h.ipv6 && proto.ipv6 || !h.ipv6 && proto.ipv4)
		}, 1, nil
	}
	if kind, ok := etherTypes[word]; ok {
		return func(_ []byte, h *headers, _ bool) bool { return h.etherType == kind }, 1, nil
	}
	switch word {
	case "host":
		addr, err := netip.ParseAddr(value)
		if err != nil {
			return nil, 0, fmt.Errorf("host %q: an IPv4 or IPv6 address was expected", value)
		}
		return hostTerm(addr.Unmap()), 2, nil
	case "port":
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return nil, 0, fmt.Errorf("port %q: a number up to 65535 was expected", value)
		}
		return portTerm(uint16(n)), 2, nil
	}
	return nil, 0, fmt.Errorf("%q where %s was expected", word, FilterSyntax)
}

// hostTerm wants addr as the source or the destination, in ARP too.
func hostTerm(addr netip.Addr) term {
	want := addr.AsSlice()
	is := func(b []byte) bool { return string(b) == string(want) }
	return func(frame []byte, h *headers, isIP bool) bool {
		at := h.ip()
		switch {
		case isIP:
			addrs := h.addrs(frame)
			return is(addrs[:len(addrs)/2]) || is(addrs[len(addrs)/2:])
		case h.etherType == etherARP && len(frame) >= at+arpLen:
			return is(frame[at+14:at+18]) || is(frame[at+24:at+28])
		}
		return false
	}
}

// portTerm wants n as the source or the destination of TCP, UDP or SCTP.
func portTerm(n uint16) term {
	return func(frame []byte, h *headers, isIP bool) bool {
		if !isIP || h.proto == protoNone {
			return false
		}
		l4 := frame[h.payload():]
		return binary.BigEndian.Uint16(l4) == n || binary.BigEndian.Uint16(l4[2:]) == n
	}
}

// Match reports whether the frame passes: the first segment of a packet of size
// bytes.
func (f Filter) Match(frame []byte, size int) bool {
	if len(f.terms) == 0 {
		return true
	}
	h, isIP := parse(frame, size)
	for _, t := range f.terms {
		if !t(frame, &h, isIP) {
			return false
		}
	}
	return true
}
