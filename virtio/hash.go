package virtio

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// HashTypes is a set of packet types for which a device computes a hash
// (section 5.1.6.4.3.1).
type HashTypes uint32

// Hash types. Those ending in Ex take addresses from IPv6 extension headers.
const (
	HashIPv4 HashTypes = 1 << iota
	HashTCPv4
	HashUDPv4
	HashIPv6
	HashTCPv6
	HashUDPv6
	HashIPv6Ex
	HashTCPv6Ex
	HashUDPv6Ex
)

// HashTypesAll holds every hash type that has a name here.
const HashTypesAll HashTypes = 1<<9 - 1

var hashNames = [9]string{
	"ipv4", "ipv4-tcp", "ipv4-udp", "ipv6", "ipv6-tcp", "ipv6-udp", "ipv6-ex", "ipv6-tcp-ex", "ipv6-udp-ex",
}

// String gives the names of the set's members as DPDK has them, separated by
// spaces.
func (h HashTypes) String() string {
	var names []string
	for rest := h & HashTypesAll; rest != 0; rest &= rest - 1 {
		names = append(names, hashNames[bits.TrailingZeros32(uint32(rest))])
	}
	return strings.Join(names, " ")
}

// ParseHashType gives the hash type of a name of String.
func ParseHashType(name string) (HashTypes, bool) {
	for i, n := range hashNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// DecodeHash reads the fields of HASH_REPORT from a network header of
// NetHeaderHashSize bytes; ok says whether the device computed a hash.
func DecodeHash(header []byte) (hash uint32, ok bool) {
	_ = header[NetHeaderHashSize-1]
	const none = 0 // VIRTIO_NET_HASH_REPORT_NONE
	return binary.LittleEndian.Uint32(header[12:]), binary.LittleEndian.Uint16(header[16:]) != none
}
