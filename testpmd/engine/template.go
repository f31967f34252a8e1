package engine

import (
	"encoding/binary"

	"vionet/offload"
)

// MinTxLen is the shortest packet that can be generated, in bytes: its
// headers.
const MinTxLen = etherLen + ipv4Len + udpLen

// DefaultTxLen is the length of generated packets in bytes, without the frame
// check sequence.
const DefaultTxLen = 64

// template holds the headers of generated packets: UDP over IPv4 without a UDP
// checksum.
type template [MinTxLen]byte

// Offsets in a template.
const (
	tmplIP   = etherLen
	tmplUDP  = etherLen + ipv4Len
	tmplFrom = tmplIP + 12
	tmplTo   = tmplIP + 16
)

// flowAddrs are the addresses of a template's packets.
type flowAddrs struct {
	src, dst         [6]byte
	srcIP, dstIP     [4]byte
	srcPort, dstPort uint16
}

// newTemplate makes the headers of packets of length bytes.
func newTemplate(a flowAddrs, length int) (t template) {
	copy(t[0:], a.dst[:])
	copy(t[6:], a.src[:])
	binary.BigEndian.PutUint16(t[12:], etherIPv4)

	ip := t[tmplIP:]
	ip[0] = 0x45
	ip[8], ip[9] = 64, protoUDP
	copy(t[tmplFrom:], a.srcIP[:])
	copy(t[tmplTo:], a.dstIP[:])

	udp := t[tmplUDP:]
	binary.BigEndian.PutUint16(udp[0:], a.srcPort)
	binary.BigEndian.PutUint16(udp[2:], a.dstPort)
	t.setLength(length)
	return t
}

// setLength makes the headers those of a packet of length bytes.
func (t *template) setLength(length int) {
	binary.BigEndian.PutUint16(t[tmplIP+2:], uint16(length-tmplIP))
	binary.BigEndian.PutUint16(t[tmplUDP+4:], uint16(length-tmplUDP))
	t.sumHeader()
}

// setAddr changes the IP address at offset at.
func (t *template) setAddr(at int, addr uint32) {
	binary.BigEndian.PutUint32(t[at:], addr)
	t.sumHeader()
}

// sumHeader fills in the checksum of the IPv4 header.
func (t *template) sumHeader() {
	ip := t[tmplIP:tmplUDP]
	putChecksum(ip[ipv4Checksum:], 0)
	putChecksum(ip[ipv4Checksum:], offload.Checksum(ip))
}

func total(lengths []int) int {
	sum := 0
	for _, n := range lengths {
		sum += n
	}
	return sum
}
