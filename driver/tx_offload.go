package driver

import (
	"encoding/binary"
	"errors"
	"fmt"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Offsets of the checksum field within the L4 headers.
const (
	udpChecksumOffset = 6
	tcpChecksumOffset = 16
)

const (
	protoTCP = 6
	protoUDP = 17

	tcpMinLen = 20 // of a TCP header without options
	tcpFlags  = 13 // offset of the low byte of its flags
	tcpCWR    = 0x80
	udpLen    = 8
)

// Reasons why a packet's request can't be served.
var (
	errNotEnabled = errors.New("it asks for an offload that the port was not started with")
	errNoRoom     = errors.New("there is no room for a VLAN tag in front of the data, or no Ethernet header to put it in")
	errNoIP       = errors.New("its flags and lengths do not describe an IP header in the first segment")
	errNoL4       = errors.New("its lengths put the checksum beyond the first segment")
	errBadTSO     = errors.New("segmentation needs SegSize and the L4Len of its protocol, and all headers in the first segment")
)

// Prepare says which of pkts Burst would send: it returns the number of packets
// at the front whose requests can be served, and why the next one's can't. It
// changes nothing. Burst itself drops such a packet and counts it as an error.
func (q *TxQueue) Prepare(pkts []*mbuf.Buf) (int, error) {
	for i, b := range pkts {
		if err := q.check(b); err != nil {
			return i, fmt.Errorf("packet %d: %w", i, err)
		}
	}
	return len(pkts), nil
}

// check reports why b's requests can't be served, or nil.
func (q *TxQueue) check(b *mbuf.Buf) error {
	if !q.permits(b.Flags) {
		return errNotEnabled
	}
	if b.Flags&mbuf.TxVLAN != 0 && (b.Len() < etherAddrsLen || b.Headroom() < vlanTagLen) {
		return errNoRoom
	}
	if b.Flags&mbuf.TxL4Mask == 0 {
		return nil
	}
	if err := checkL4(b); err != nil {
		return err
	}
	if b.Flags&(mbuf.TxTSO|mbuf.TxUSO) != 0 {
		return checkSegmentation(b)
	}
	return nil
}

// permits reports whether every request in flags was enabled at Start.
func (q *TxQueue) permits(flags mbuf.Flags) bool {
	enabled := func(flag mbuf.Flags, o port.TxOffloads) bool {
		return flags&flag == 0 || q.offloads&o != 0
	}
	return enabled(mbuf.TxVLAN, port.TxVLANInsert) &&
		enabled(mbuf.TxTCPChecksum, port.TxTCPCksum) &&
		enabled(mbuf.TxUDPChecksum, port.TxUDPCksum) &&
		enabled(mbuf.TxTSO, port.TxTCPTSO) &&
		enabled(mbuf.TxUSO, port.TxUDPTSO)
}

// checkL4 looks for the headers that a checksum request speaks of.
func checkL4(b *mbuf.Buf) error {
	least := ipv4MinLen
	switch b.Flags & (mbuf.TxIPv4 | mbuf.TxIPv6) {
	case mbuf.TxIPv4:
	case mbuf.TxIPv6:
		least = ipv6MinLen
	default:
		return errNoIP
	}
	if int(b.L3Len) < least || int(b.L2Len)+int(b.L3Len) > b.Len() {
		return errNoIP
	}
	_, field := l4Protocol(b.Flags)
	if int(b.L2Len)+int(b.L3Len)+field+2 > b.Len() {
		return errNoL4
	}
	return nil
}

func checkSegmentation(b *mbuf.Buf) error {
	headers := int(b.L2Len) + int(b.L3Len) + int(b.L4Len)
	right := b.L4Len >= tcpMinLen && b.Flags&(mbuf.TxUDPChecksum|mbuf.TxUSO) == 0
	if b.Flags&mbuf.TxTSO == 0 {
		right = b.L4Len == udpLen && b.Flags&mbuf.TxTCPChecksum == 0
	}
	if !right || b.SegSize == 0 || headers > b.Len() {
		return errBadTSO
	}
	return nil
}

// l4Protocol is the protocol number that a request speaks of, and the offset of
// the checksum in its header.
func l4Protocol(flags mbuf.Flags) (proto byte, field int) {
	if flags&(mbuf.TxUDPChecksum|mbuf.TxUSO) != 0 {
		return protoUDP, udpChecksumOffset
	}
	return protoTCP, tcpChecksumOffset
}

// offload does what b's flags ask for, as far as it is the driver's part: it
// inserts the VLAN tag, puts the pseudo-header's sum where the device starts
// from, and fills in hdr (virtio 1.2, section 5.1.6.2). The packet was checked.
func (q *TxQueue) offload(b *mbuf.Buf, hdr *virtio.NetHeader) {
	if b.Flags&mbuf.TxVLAN != 0 {
		insertVLAN(b)
	}
	if b.Flags&mbuf.TxL4Mask != 0 {
		requestChecksum(b, hdr)
	}
	if b.Flags&(mbuf.TxTSO|mbuf.TxUSO) != 0 {
		q.requestSegmentation(b, hdr)
	}
}

// requestChecksum asks the device for the L4 checksum of b.
func requestChecksum(b *mbuf.Buf, hdr *virtio.NetHeader) {
	proto, field := l4Protocol(b.Flags)
	l2, start := int(b.L2Len), int(b.L2Len)+int(b.L3Len)
	frame := b.Bytes()
	sum := pseudoSum(frame[l2:start], b.Flags, proto, b.PacketLen()-start)
	binary.BigEndian.PutUint16(frame[start+field:], sum)
	hdr.Flags = virtio.HdrNeedsCSum
	hdr.CSumStart, hdr.CSumOffset = uint16(start), uint16(field)
}

// requestSegmentation asks the device to segment b. A TCP packet that says it
// answered to congestion says so in its first segment only, where the device
// knows how (HOST_ECN).
func (q *TxQueue) requestSegmentation(b *mbuf.Buf, hdr *virtio.NetHeader) {
	frame, l4 := b.Bytes(), b.L2Len+b.L3Len
	if b.Flags&mbuf.TxIPv4 != 0 {
		fillIPv4Checksum(frame[b.L2Len:l4])
	}
	switch {
	case b.Flags&mbuf.TxUSO != 0:
		hdr.GSOType = virtio.GSOUDPL4
	case b.Flags&mbuf.TxIPv6 != 0:
		hdr.GSOType = virtio.GSOTCPv6
	default:
		hdr.GSOType = virtio.GSOTCPv4
	}
	if q.ecn && b.Flags&mbuf.TxTSO != 0 && frame[int(l4)+tcpFlags]&tcpCWR != 0 {
		hdr.GSOType |= virtio.GSOECN
	}
	hdr.GSOSize, hdr.HdrLen = b.SegSize, b.L2Len+b.L3Len+b.L4Len
}

// fillIPv4Checksum completes the checksum of an IPv4 header: a segmented
// packet's headers are made from it.
func fillIPv4Checksum(ip []byte) {
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^fold(sumWords(ip)))
}

// Places of the addresses in the IP headers.
const (
	ipv4MinLen = 20
	ipv4Source = 12
	ipv6MinLen = 40
	ipv6Source = 8
)

// pseudoSum is the one's complement sum of the pseudo-header of an L4 packet
// of length bytes, not inverted. The length is the true one, not the 16 bits
// of the IP header, which a large segmented packet overflows.
func pseudoSum(ip []byte, flags mbuf.Flags, proto byte, length int) uint16 {
	addrs := ip[ipv4Source:ipv4MinLen]
	if flags&mbuf.TxIPv6 != 0 {
		addrs = ip[ipv6Source:ipv6MinLen]
	}
	return fold(sumWords(addrs) + uint64(proto) + uint64(length>>16) + uint64(length&0xffff))
}

// sumWords adds up the 16-bit words of b, whose length is even.
func sumWords(b []byte) uint64 {
	var sum uint64
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint64(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

// fold brings a sum of 16-bit words into one, carries added in.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
