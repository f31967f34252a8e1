package mbuf

// Headroom is the number of bytes that a fresh buffer keeps free in front of
// its data: room for the virtio-net header and for headers that the
// application prepends.
const Headroom = 128

// DefaultSize is the usual size of a buffer in bytes, headroom included: an
// Ethernet frame of 2048 bytes behind it.
const DefaultSize = 2048 + Headroom

// Flags says what a port found out about a received packet, or what it is
// asked to do to a packet that is sent.
type Flags uint32

// Flags of received packets.
const (
	// RxL4Good: the device checked the L4 checksum.
	RxL4Good Flags = 1 << iota
	// RxL4None: the L4 checksum field is not filled in, but the data is
	// known to be good; it came from a sender on the same host. See CSumStart.
	RxL4None
	// RxVLANStripped: the tag was taken out of the frame, see VLAN.
	RxVLANStripped
	// RxLRO: the packet is several segments put together, see SegSize.
	RxLRO
	// RxHash: the device computed a hash of the packet's addresses, see Hash.
	RxHash
	// RxL4Bad: the L4 checksum was looked at and is wrong.
	RxL4Bad
	// RxIPBad: the same of the IPv4 header's checksum.
	RxIPBad
)

// Flags of packets to send. A checksum or TSO request needs TxIPv4 or TxIPv6
// and the lengths L2Len and L3Len, TSO also L4Len and SegSize.
const (
	// TxTCPChecksum asks for the TCP checksum.
	TxTCPChecksum Flags = 1 << (iota + 16)
	// TxUDPChecksum asks for the UDP checksum.
	TxUDPChecksum
	// TxTSO asks for TCP segmentation, which brings the checksum.
	TxTSO
	// TxIPv4 and TxIPv6 say which IP header the packet has.
	TxIPv4
	TxIPv6
	// TxVLAN asks for a tag with the value in VLAN.
	TxVLAN
	// TxUSO asks for UDP segmentation into datagrams of SegSize bytes, which
	// brings the checksum.
	TxUSO
)

// TxL4Mask holds every flag that asks the device to fill in an L4 checksum.
const TxL4Mask = TxTCPChecksum | TxUDPChecksum | TxTSO | TxUSO

// Buf is one packet buffer: a fixed range of device-visible memory, a window
// of it that holds data, and what is known about the packet. A packet longer
// than a buffer is a chain of them; packet-wide values stand in the first.
//
// A Buf belongs to one holder at a time (see the package comment) and has no
// lock of its own.
type Buf struct {
	// The fields that a burst touches come first: one cache line.
	mem    []byte
	iova   uint64
	next   *Buf
	pool   *Pool
	pktLen uint32
	off    uint16
	dlen   uint16

	// Flags, and below it the values that flags refer to.
	Flags Flags

	segs uint16

	// VLAN is the tag control information of RxVLANStripped and TxVLAN.
	VLAN uint16
	// L2Len, L3Len and L4Len are the lengths in bytes of the headers.
	L2Len, L3Len, L4Len uint16
	// SegSize is the payload of a segment in bytes, for TxTSO, TxUSO and RxLRO.
	SegSize uint16
	// Port is the number of the port that received the packet.
	Port uint16
	// Hash is the value of RxHash.
	Hash uint32
	// CSumStart and CSumOffset tell what RxL4None leaves to do: the checksum
	// from CSumStart, an offset in bytes into the packet, to the packet's end
	// belongs CSumOffset bytes behind CSumStart. The field there holds the sum
	// of the pseudo-header. CSumStart is 0 where the port does not know.
	CSumStart, CSumOffset uint16

	token uint32 // of a Lender, or the number of a frame
	home  home   // of a buffer to which External memory is attached
	// That makes two whole cache lines: neighbours never share one.
}

// Bytes gives the data of this segment. It stays valid until the Buf is
// given away.
func (b *Buf) Bytes() []byte { return b.mem[b.off : uint32(b.off)+uint32(b.dlen)] }

// Len is the number of data bytes in this segment.
func (b *Buf) Len() int { return int(b.dlen) }

// PacketLen is the number of data bytes in the whole chain; valid in the
// first segment.
func (b *Buf) PacketLen() int { return int(b.pktLen) }

// Next is the following segment, or nil.
func (b *Buf) Next() *Buf { return b.next }

// Segments is the number of segments of the chain; valid in the first.
func (b *Buf) Segments() int { return int(b.segs) }

// Token is the number of a frame, see NewFramePool, or what a Lender was given
// with the memory.
func (b *Buf) Token() uint32 { return b.token }

// Headroom is the number of free bytes in front of the data.
func (b *Buf) Headroom() int { return int(b.off) }

// Tailroom is the number of free bytes behind the data.
func (b *Buf) Tailroom() int { return len(b.mem) - int(b.off) - int(b.dlen) }

// Capacity is the size of the buffer in bytes, headroom included.
func (b *Buf) Capacity() int { return len(b.mem) }

// Pool is the pool that the buffer goes back to.
func (b *Buf) Pool() *Pool { return b.pool }

// IOVA is the device address of the first data byte.
func (b *Buf) IOVA() uint64 { return b.iova + uint64(b.off) }

// BaseIOVA is the device address of the buffer's first byte, where the
// headroom of an empty buffer starts.
func (b *Buf) BaseIOVA() uint64 { return b.iova }

// Head gives the n bytes in front of the data, without making them data: the
// place of the virtio-net header. It is nil when the headroom is shorter.
func (b *Buf) Head(n int) []byte {
	off := int(b.off)
	if n < 0 || n > off || off > len(b.mem) {
		return nil
	}
	return b.mem[off-n : off]
}

// Raw gives the whole buffer, headroom included, whatever of it is data. It stays
// valid until the Buf is given away.
func (b *Buf) Raw() []byte { return b.mem }

// Reset makes b an empty packet of one segment with the usual headroom and
// no flags. A chain behind it must have been freed or handed on before.
func (b *Buf) Reset() {
	b.off, b.dlen, b.pktLen = Headroom, 0, 0
	b.segs, b.Flags = 1, 0
}

// Renew makes b a packet of one segment with n bytes of data, for the caller to
// fill, behind the usual headroom: Reset and Append in one. It returns nil,
// and leaves an empty packet, when the buffer is too small.
func (b *Buf) Renew(n int) []byte {
	b.segs, b.Flags = 1, 0
	if uint(n) > uint(len(b.mem)-Headroom) {
		b.off, b.dlen, b.pktLen = Headroom, 0, 0
		return nil
	}
	b.off, b.dlen, b.pktLen = Headroom, uint16(n), uint32(n)
	return b.mem[Headroom : Headroom+n]
}

// SetReceived makes b a received packet of one segment: n bytes of data that
// start at off. It is for ports; n and off come from the caller's own checks.
func (b *Buf) SetReceived(off, n int) {
	b.off, b.dlen, b.pktLen = uint16(off), uint16(n), uint32(n)
	b.segs, b.Flags = 1, 0
}

// Append makes the n bytes behind the data part of it and returns them for
// the caller to fill, or nil, with nothing changed, when there is no room.
// On a chain it works on the first segment.
func (b *Buf) Append(n int) []byte {
	if n < 0 || n > b.Tailroom() {
		return nil
	}
	end := int(b.off) + int(b.dlen)
	b.dlen += uint16(n)
	b.pktLen += uint32(n)
	return b.mem[end : end+n]
}

// Prepend makes the n bytes in front of the data part of it and returns them
// for the caller to fill, or nil, with nothing changed, when there is no
// room.
func (b *Buf) Prepend(n int) []byte {
	if n < 0 || n > int(b.off) {
		return nil
	}
	b.off -= uint16(n)
	b.dlen += uint16(n)
	b.pktLen += uint32(n)
	return b.mem[b.off : int(b.off)+n]
}

// TrimFront takes n bytes off the front of the first segment and reports
// whether it had that many.
func (b *Buf) TrimFront(n int) bool {
	if n < 0 || n > int(b.dlen) {
		return false
	}
	b.off += uint16(n)
	b.dlen -= uint16(n)
	b.pktLen -= uint32(n)
	return true
}

// Truncate sets the data length of a packet of one segment to n bytes, and
// reports whether it had that many.
func (b *Buf) Truncate(n int) bool {
	if n < 0 || n > int(b.dlen) || b.segs != 1 {
		return false
	}
	b.dlen = uint16(n)
	b.pktLen = uint32(n)
	return true
}

// Chain hangs the packet tail behind the packet b; tail is part of b's chain
// afterwards. The walk to b's last segment makes this linear in its length;
// a port that builds long chains keeps the last segment and uses Link.
func (b *Buf) Chain(tail *Buf) {
	last := b
	for last.next != nil {
		last = last.next
	}
	b.Link(last, tail)
}

// Unlink takes the first segment off a chain and returns the rest, or nil. What
// b says of the packet, such as its length, is that of the chain still.
func (b *Buf) Unlink() (rest *Buf) {
	rest, b.next = b.next, nil
	return rest
}

// Link hangs the packet tail behind last, the last segment of the packet b.
func (b *Buf) Link(last, tail *Buf) {
	last.next = tail
	b.pktLen += tail.pktLen
	b.segs += tail.segs
}

// Free gives every segment of the packet back to its pool. Any goroutine may
// call it; a goroutine that frees many packets uses a Cache.
func (b *Buf) Free() {
	for b != nil {
		next := b.next
		b.next = nil
		b.pool.Put(b)
		b = next
	}
}
