package vhost

import (
	"encoding/binary"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
	"vionet/virtio"
)

// Places and sizes in the headers of a frame.
const (
	etherAddrsLen = 12 // destination and source
	etherTypeVLAN = 0x8100
	vlanTagLen    = 4

	ipv4MinLen, ipv4Checksum, ipv4Source = 20, 10, 12
	ipv6MinLen, ipv6Source               = 40, 8

	protoTCP, tcpChecksum, tcpMinLen = 6, 16, 20
	protoUDP, udpChecksum            = 17, 6
)

// readHeader turns the guest's header into b's flags (virtio 1.2, section
// 5.1.6.2). A checksum that the guest has left to the device is filled in when
// the port was not started with an offload for that; of a packet that is still
// to be segmented it stays, since the segments have others. It is false for a
// header that does not fit the packet or the negotiated features.
func (q *portRx) readHeader(b *mbuf.Buf, h virtio.NetHeader) bool {
	if h.GSOType != virtio.GSONone {
		if !q.takesLarge(h.GSOType) || h.GSOSize == 0 {
			return false
		}
		b.Flags |= mbuf.RxLRO
		b.SegSize = h.GSOSize
	}
	if h.Flags&virtio.HdrNeedsCSum == 0 {
		return true
	}
	end := int(h.CSumStart) + int(h.CSumOffset) + 2
	if end > b.PacketLen() {
		return false
	}
	if b.Flags&mbuf.RxLRO != 0 || q.offloads&(port.RxUDPCksum|port.RxTCPCksum) != 0 {
		b.Flags |= mbuf.RxL4None
		b.CSumStart, b.CSumOffset = h.CSumStart, h.CSumOffset
		return true
	}
	if end > b.Len() {
		return false
	}
	completePacket(b, h.CSumStart, h.CSumOffset)
	return true
}

// takesLarge reports whether packets of that kind were negotiated. The bit for a
// packet that answers to congestion says nothing that is not in its TCP header.
func (q *portRx) takesLarge(gsoType uint8) bool {
	var need virtio.Features
	switch gsoType &^ virtio.GSOECN {
	case virtio.GSOTCPv4:
		need = virtio.NetHostTSO4
	case virtio.GSOTCPv6:
		need = virtio.NetHostTSO6
	default:
		return false
	}
	if gsoType&virtio.GSOECN != 0 {
		need |= virtio.NetHostECN
	}
	return q.dev.features.Has(need)
}

// request turns the flags of b, which asks for something, into the header for
// the guest, which is good for this packet only. The checksum is left to a guest
// that can do without, and filled in for another. It is nil for a packet that
// asks for what is not there. A large one was looked at with mustCut.
func (q *portTx) request(b *mbuf.Buf) *virtio.NetHeader {
	if !q.permits(b.Flags) {
		return nil
	}
	return q.describe(b)
}

// describe is request of a packet whose requests are permitted.
func (q *portTx) describe(b *mbuf.Buf) *virtio.NetHeader {
	h := &q.header
	*h = virtio.NetHeader{}
	if b.Flags&mbuf.TxVLAN != 0 && b.Len() < etherAddrsLen {
		return nil
	}
	if b.Flags&mbuf.TxL4Mask == 0 {
		return h
	}
	start, field, ok := startChecksum(b)
	if !ok || b.Flags&mbuf.TxTSO != 0 && !askSegmentation(b, h) {
		return nil
	}
	if !q.dev.features.Has(virtio.NetGuestCSUM) {
		completePacket(b, start, field)
		return h
	}
	h.Flags, h.CSumStart, h.CSumOffset = virtio.HdrNeedsCSum, start, field
	if b.Flags&mbuf.TxVLAN != 0 {
		h.CSumStart += vlanTagLen
		h.HdrLen += vlanTagLen
	}
	return h
}

// permits reports whether every request in flags was enabled at Start.
func (q *portTx) permits(flags mbuf.Flags) bool {
	enabled := func(flag mbuf.Flags, o port.TxOffloads) bool {
		return flags&flag == 0 || q.offloads&o != 0
	}
	return flags&mbuf.TxUSO == 0 &&
		enabled(mbuf.TxVLAN, port.TxVLANInsert) &&
		enabled(mbuf.TxTCPChecksum, port.TxTCPCksum) &&
		enabled(mbuf.TxUDPChecksum, port.TxUDPCksum) &&
		enabled(mbuf.TxTSO, port.TxTCPTSO)
}

// startChecksum puts the sum of the pseudo-header where b's checksum belongs:
// field bytes behind start. It is false when b's lengths leave no place for it
// in the first segment.
func startChecksum(b *mbuf.Buf) (start, field uint16, ok bool) {
	proto, field := protoTCP, uint16(tcpChecksum)
	if b.Flags&mbuf.TxUDPChecksum != 0 {
		proto, field = protoUDP, udpChecksum
	}
	least, source, n := ipv4MinLen, ipv4Source, 8
	if b.Flags&mbuf.TxIPv6 != 0 {
		least, source, n = ipv6MinLen, ipv6Source, 32
	}
	start = b.L2Len + b.L3Len
	end := int(b.L2Len) + int(b.L3Len) + int(field) + 2
	if b.Flags&(mbuf.TxIPv4|mbuf.TxIPv6) == 0 || int(b.L3Len) < least || end > b.Len() {
		return 0, 0, false
	}
	frame := b.Bytes()
	length := b.PacketLen() - int(start)
	addresses := frame[int(b.L2Len)+source:][:n]
	var sum offload.Sum
	sum.Add(addresses)
	sum.AddWord(uint16(proto))
	sum.AddWord(uint16(length >> 16))
	sum.AddWord(uint16(length))
	binary.BigEndian.PutUint16(frame[int(start+field):], sum.Folded())
	return start, field, true
}

// askSegmentation asks the guest to take b as the segments that it stands for.
// It is false when b's lengths make no sense.
func askSegmentation(b *mbuf.Buf, h *virtio.NetHeader) bool {
	headers := b.L2Len + b.L3Len + b.L4Len
	if b.L4Len < tcpMinLen || b.SegSize == 0 || int(headers) > b.Len() || b.Flags&mbuf.TxUDPChecksum != 0 {
		return false
	}
	h.GSOType = virtio.GSOTCPv4
	if b.Flags&mbuf.TxIPv6 != 0 {
		h.GSOType = virtio.GSOTCPv6
	}
	if answersCongestion(b) {
		h.GSOType |= virtio.GSOECN
	}
	if b.Flags&mbuf.TxIPv4 != 0 { // the segments' headers are made from it
		ip := b.Bytes()[b.L2Len : b.L2Len+b.L3Len]
		binary.BigEndian.PutUint16(ip[ipv4Checksum:], 0)
		binary.BigEndian.PutUint16(ip[ipv4Checksum:], offload.Checksum(ip))
	}
	h.GSOSize, h.HdrLen = b.SegSize, headers
	return true
}

// completePacket is completeChecksum of a packet whose checksum field lies in
// its first segment.
func completePacket(b *mbuf.Buf, start, offset uint16) {
	var sum offload.Sum
	skip := int(start)
	for seg := b; seg != nil; seg = seg.Next() {
		data := seg.Bytes()
		sum.Add(data[min(skip, len(data)):])
		skip = max(skip-len(data), 0)
	}
	putChecksum(b.Bytes()[int(start)+int(offset):], sum.Checksum())
}

// stripVLAN takes the outer tag out of a received frame into b.VLAN.
func stripVLAN(b *mbuf.Buf) {
	frame := b.Bytes()
	if len(frame) < etherAddrsLen+vlanTagLen || binary.BigEndian.Uint16(frame[etherAddrsLen:]) != etherTypeVLAN {
		return
	}
	b.VLAN = binary.BigEndian.Uint16(frame[etherAddrsLen+2:])
	b.Flags |= mbuf.RxVLANStripped
	copy(frame[vlanTagLen:], frame[:etherAddrsLen])
	b.TrimFront(vlanTagLen)
	if b.Flags&mbuf.RxL4None != 0 {
		b.CSumStart -= min(b.CSumStart, vlanTagLen)
	}
}
