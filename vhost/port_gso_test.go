package vhost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// largeTCP is a packet of payload bytes behind headers without options, to be
// segmented into size bytes each.
type largeTCP struct {
	ipv6          bool
	flags         byte // of TCP
	payload, size int
}

func (l largeTCP) l3() int { return map[bool]int{false: 20, true: 40}[l.ipv6] }

// frame is the packet with empty checksums.
func (l largeTCP) frame() []byte {
	f := make([]byte, 14+l.l3()+20+l.payload)
	ip, tcp := f[14:], f[14+l.l3():]
	copy(f, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01")
	if l.ipv6 {
		copy(f[12:], []byte{0x86, 0xdd, 0x60})
		binary.BigEndian.PutUint16(ip[4:], uint16(len(tcp)))
		ip[6], ip[7], ip[23], ip[39] = 6, 64, 1, 2
	} else {
		copy(f[12:], []byte{0x08, 0x00, 0x45})
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		copy(ip[6:], []byte{0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	}
	copy(tcp, []byte{0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0x50, l.flags, 1, 0})
	for i := range l.payload {
		tcp[20+i] = byte(i * 7)
	}
	return f
}

// packet is the packet in buffers of up to room bytes, with its request.
func (l largeTCP) packet(tb testing.TB, pool *mbuf.Pool, room int) *mbuf.Buf {
	b := packetOf(tb, pool, l.frame(), room)
	b.Flags = mbuf.TxTSO | map[bool]mbuf.Flags{false: mbuf.TxIPv4, true: mbuf.TxIPv6}[l.ipv6]
	b.L2Len, b.L3Len, b.L4Len, b.SegSize = 14, uint16(l.l3()), 20, uint16(l.size)
	return b
}

func (l largeTCP) segments() int { return (l.payload + l.size - 1) / l.size }

// wordSum is the ones' complement sum of pieces of even length, the last of
// which may be odd.
func wordSum(pieces ...[]byte) uint16 {
	sum := 0
	for _, p := range pieces {
		for i, v := range p {
			sum += int(v) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// check says whether a frame that arrived is segment i, with the right header in
// front: the checksum is there, or its start where the guest was told so.
func (l largeTCP) check(tb testing.TB, i int, h virtio.NetHeader, frame []byte) {
	tb.Helper()
	from := i * l.size
	to := min(from+l.size, l.payload)
	whole := l.frame()
	headers := 14 + l.l3() + 20
	if len(frame) != headers+to-from || !bytes.Equal(frame[headers:], whole[headers+from:headers+to]) {
		tb.Fatalf("segment %d: %d bytes\n%x", i, len(frame), frame)
	}
	ip, tcp := frame[14:14+l.l3()], frame[14+l.l3():]
	addresses := ip[len(ip)-8:]
	if l.ipv6 {
		addresses = ip[8:]
		if int(binary.BigEndian.Uint16(ip[4:])) != len(tcp) {
			tb.Errorf("segment %d: IPv6 header %x", i, ip)
		}
	} else if wordSum(ip) != 0xffff || int(binary.BigEndian.Uint16(ip[2:])) != len(frame)-14 || int(binary.BigEndian.Uint16(ip[4:])) != i {
		tb.Errorf("segment %d: IPv4 header %x", i, ip)
	}
	if seq := binary.BigEndian.Uint32(tcp[4:]); seq != 0xffffff00+uint32(from) {
		tb.Errorf("segment %d: sequence number %#x", i, seq)
	}
	flags := l.flags
	if i > 0 {
		flags &^= 0x80
	}
	if i < l.segments()-1 {
		flags &^= 0x09
	}
	if tcp[13] != flags {
		tb.Errorf("segment %d: flags %#x, want %#x", i, tcp[13], flags)
	}
	pseudo := []byte{0, 6, byte(len(tcp) >> 8), byte(len(tcp))}
	switch {
	case h.GSOType != virtio.GSONone:
		tb.Errorf("segment %d: header %+v", i, h)
	case h.Flags == 0:
		if sum := wordSum(addresses, pseudo, tcp); sum != 0xffff {
			tb.Errorf("segment %d: the checksum is off, sum %#x", i, sum)
		}
	case h.Flags != virtio.HdrNeedsCSum || int(h.CSumStart) != 14+l.l3() || h.CSumOffset != 16 || binary.BigEndian.Uint16(tcp[16:]) != wordSum(addresses, pseudo):
		tb.Errorf("segment %d: header %+v, checksum field %x", i, h, tcp[16:18])
	}
}

const tsoOffloads = port.TxTCPTSO | port.TxTCPCksum | port.TxVLANInsert | port.TxMultiSegs

// newLargeRig is a port that sends large packets, and a raw guest behind it.
func newLargeRig(t *testing.T, features virtio.Features) (*portRig, *rig) {
	r := newPortRig(t, PortConfig{TSO: true, Packed: true}, port.Config{TxOffloads: tsoOffloads})
	f, err := Dial(r.path, FrontendConfig{QueueSize: rigSize, Log: logTo(t)})
	r.must(err)
	g := newRig(t, f, 1)
	g.start(plain|features, 1)
	if want := plain&^virtio.NetMAC | features; g.accepted != want {
		t.Fatalf("negotiated %v, want %v", g.accepted, want)
	}
	return r, g
}

// burst offers one packet, and frees it when it is not taken.
func (r *portRig) burst(b *mbuf.Buf) int {
	n := r.port.TxQueue(0).Burst([]*mbuf.Buf{b})
	if n == 0 {
		b.Free()
	}
	return n
}

var largePackets = []largeTCP{
	{flags: 0x99, payload: 1746, size: 500}, {flags: 0x10, payload: 20000, size: 1448}, {flags: 0x19, payload: 500, size: 500},
	{ipv6: true, flags: 0x99, payload: 1746, size: 501}, {ipv6: true, flags: 0x11, payload: 20000, size: 1428}, {payload: 9, size: 1},
}

// A guest that takes no large frames gets segments.
func TestPortCutsForTheGuest(t *testing.T) {
	for _, kind := range ringKinds {
		for _, features := range []virtio.Features{
			0, virtio.NetGuestCSUM, virtio.NetMrgRxbuf, virtio.NetMrgRxbuf | virtio.NetGuestCSUM,
		} {
			t.Run(fmt.Sprint(kind|features), func(t *testing.T) {
				r, g := newLargeRig(t, kind|features)
				sent := 0
				for _, l := range largePackets {
					if n := r.burst(l.packet(t, r.pool, 1000)); n != 1 {
						t.Fatalf("%+v: not taken", l)
					}
					for i := range l.segments() {
						h, frame := g.receive(0)
						if (h.Flags != 0) != features.Has(virtio.NetGuestCSUM) {
							t.Errorf("%+v, segment %d: header %+v", l, i, h)
						}
						l.check(t, i, h, frame)
						sent++
					}
				}
				if s := r.port.Stats(); s.TxPackets != uint64(sent) || s.TxErrors != 0 {
					t.Errorf("stats %+v, want %d packets", s, sent)
				}
			})
		}
	}
}

// Packets of all kinds in one burst come in their order, tagged where that was
// asked for.
func TestPortCutsAmongOthers(t *testing.T) {
	r, g := newLargeRig(t, virtio.NetMrgRxbuf|virtio.NetGuestCSUM)
	l := largeTCP{flags: 0x18, payload: 2500, size: 1000}
	large := l.packet(t, r.pool, 2048)
	large.Flags |= mbuf.TxVLAN
	large.VLAN = 0x2007
	tagged := packetOf(t, r.pool, frameOf(3, 70), 2048)
	tagged.Flags, tagged.VLAN = mbuf.TxVLAN, 0x2005
	if n := r.port.TxQueue(0).Burst([]*mbuf.Buf{packetOf(t, r.pool, frameOf(1, 60), 2048), tagged, large, packetOf(t, r.pool, frameOf(2, 60), 2048)}); n != 4 {
		t.Fatalf("Burst = %d", n)
	}
	untag := func(tci uint16, frame []byte) []byte {
		if [4]byte(frame[12:]) != [4]byte{0x81, 0, byte(tci >> 8), byte(tci)} {
			t.Errorf("no tag %#x: %x", tci, frame)
		}
		return append(frame[:12:12], frame[16:]...)
	}
	if _, frame := g.receive(0); !bytes.Equal(frame, frameOf(1, 60)) {
		t.Errorf("first frame %x", frame)
	}
	if _, frame := g.receive(0); !bytes.Equal(untag(0x2005, frame), frameOf(3, 70)) {
		t.Errorf("second frame %x", frame)
	}
	for i := range l.segments() {
		h, frame := g.receive(0)
		h.CSumStart -= 4
		l.check(t, i, h, untag(0x2007, frame))
	}
	if _, frame := g.receive(0); !bytes.Equal(frame, frameOf(2, 60)) {
		t.Errorf("last frame %x", frame)
	}
}

// The buffers of one packet's segments are used again for those of the next.
func TestPortCutsPacketAfterPacket(t *testing.T) {
	r, g := newLargeRig(t, virtio.NetMrgRxbuf)
	large := []largeTCP{{flags: 0x18, payload: 2500, size: 1000}, {flags: 0x10, payload: 2000, size: 500}, {ipv6: true, payload: 900, size: 100}}
	var bufs []*mbuf.Buf
	for _, l := range large {
		bufs = append(bufs, l.packet(t, r.pool, 2048))
	}
	if n := r.port.TxQueue(0).Burst(bufs); n != len(bufs) {
		t.Fatalf("Burst = %d", n)
	}
	for _, l := range large {
		for i := range l.segments() {
			h, frame := g.receive(0)
			l.check(t, i, h, frame)
		}
	}
}

// While the guest has too few buffers for all segments it gets none of them, and
// all when it has made room.
func TestPortSendsSegmentsWholeOrNot(t *testing.T) {
	l := largeTCP{flags: 0x10, payload: 10 * 300, size: 300}
	for _, kind := range ringKinds {
		for _, tag := range []mbuf.Flags{0, mbuf.TxVLAN} {
			t.Run(fmt.Sprintf("%v,%#x", kind, tag), func(t *testing.T) {
				r, g := newLargeRig(t, kind|virtio.NetMrgRxbuf)
				tx := r.port.TxQueue(0)
				var first []*mbuf.Buf
				for i := range rigSize - 9 {
					first = append(first, packetOf(t, r.pool, frameOf(i, 60), 2048))
				}
				b := l.packet(t, r.pool, 2048)
				b.Flags |= tag
				if n := tx.Burst(append(first, b)); n != len(first) {
					t.Fatalf("Burst = %d of %d, and a large packet with room for all but one segment", n, len(first))
				}
				for range 3 {
					if n := tx.Burst([]*mbuf.Buf{b}); n != 0 {
						t.Fatal("the packet was taken without room for it")
					}
				}
				if s := r.port.Stats(); s.TxPackets != uint64(len(first)) || s.TxErrors != 0 {
					t.Errorf("stats %+v", s)
				}
				for i := range first {
					if _, frame := g.receive(0); !bytes.Equal(frame, frameOf(i, 60)) {
						t.Fatalf("frame %d: %x", i, frame)
					}
				}
				if _, frame, ok := g.poll(0); ok {
					t.Fatalf("a part of the packet arrived: %x", frame)
				}
				if n := r.burst(b); n != 1 {
					t.Fatal("the packet was not taken")
				}
				for i := range l.segments() {
					h, frame := g.receive(0)
					if tag != 0 {
						frame = append(frame[:12:12], frame[16:]...)
					}
					l.check(t, i, h, frame)
				}
				if s := r.port.Stats(); s.TxPackets != uint64(len(first)+10) || s.TxErrors != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		}
	}
}

// A packet of more segments than a guest of that size can be sure to take does
// not wait for ever: what fits is sent.
func TestPortDropsSegmentsOfTooMany(t *testing.T) {
	r, g := newLargeRig(t, 0)
	l := largeTCP{flags: 0x10, payload: 80 * 100, size: 100}
	if n := r.burst(l.packet(t, r.pool, 2048)); n != 1 {
		t.Fatal("the packet was not taken")
	}
	if n := r.burst(l.packet(t, r.pool, 2048)); n != 0 {
		t.Fatal("a packet was taken without any room")
	}
	if s := r.port.Stats(); s.TxPackets != rigSize || s.TxErrors != 80-rigSize {
		t.Errorf("stats %+v, want %d packets and the rest of 80 dropped", s, rigSize)
	}
	for i := range rigSize {
		h, frame := g.receive(0)
		l.check(t, i, h, frame)
	}
}

// Without buffers for the segments the packet stays the caller's.
func TestPortCutsWithoutBuffers(t *testing.T) {
	r, g := newLargeRig(t, 0)
	l := largeTCP{flags: 0x10, payload: 10 * 300, size: 300}
	b := l.packet(t, r.pool, 2048)
	var held []*mbuf.Buf
	for r.pool.Free() > 9 {
		held = append(held, r.pool.Get())
	}
	tx := r.port.TxQueue(0)
	if n := tx.Burst([]*mbuf.Buf{b}); n != 0 {
		t.Fatal("taken with 9 buffers for 10 segments")
	}
	for _, h := range held {
		h.Free()
	}
	if n := r.burst(b); n != 1 {
		t.Fatal("not taken with buffers enough")
	}
	for i := range l.segments() {
		h, frame := g.receive(0)
		l.check(t, i, h, frame)
	}
}

// A large packet of many buffers arrives as one frame where the guest takes
// those, over as many of its buffers as it needs.
func TestPortSendsLargeFramesWhole(t *testing.T) {
	for _, kind := range ringKinds {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			r, g := newLargeRig(t, kind|virtio.NetMrgRxbuf|virtio.NetGuestCSUM|virtio.NetGuestTSO4|virtio.NetGuestTSO6)
			for _, l := range []largeTCP{{payload: 60000, size: 1448, flags: 0x18}, {ipv6: true, payload: 60000, size: 1428, flags: 0x18}} {
				want := l.frame()
				if n := r.burst(l.packet(t, r.pool, 1000)); n != 1 {
					t.Fatal("the packet was not taken")
				}
				h, frame := g.receive(0)
				gso := map[bool]uint8{false: virtio.GSOTCPv4, true: virtio.GSOTCPv6}[l.ipv6]
				wantHeader := virtio.NetHeader{
					Flags: virtio.HdrNeedsCSum, GSOType: gso, GSOSize: uint16(l.size), HdrLen: uint16(len(want) - l.payload),
					CSumStart: uint16(14 + l.l3()), CSumOffset: 16,
					NumBuffers: uint16((len(want) + virtio.NetHeaderSize + rigBufSize - 1) / rigBufSize),
				}
				if h != wantHeader {
					t.Errorf("header %+v, want %+v", h, wantHeader)
				}
				// All but the checksums is as it was.
				for _, f := range [][]byte{frame, want} {
					clear(f[14+l.l3()+16:][:2])
					if !l.ipv6 {
						clear(f[24:26])
					}
				}
				if !bytes.Equal(frame, want) {
					t.Errorf("%d bytes arrived of %d", len(frame), len(want))
				}
			}
			if s := r.port.Stats(); s.TxPackets != 2 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// The answer to congestion goes out once: as a bit beside the kind of packet to
// a guest that knows it, and with the first segment to another.
func TestPortECN(t *testing.T) {
	const lro = virtio.NetMrgRxbuf | virtio.NetGuestCSUM | virtio.NetGuestTSO4 | virtio.NetGuestTSO6
	for _, ipv6 := range []bool{false, true} {
		l := largeTCP{ipv6: ipv6, payload: 3000, size: 1000, flags: 0x90}
		r, g := newLargeRig(t, lro|virtio.NetGuestECN)
		r.burst(l.packet(t, r.pool, 2048))
		want := map[bool]uint8{false: virtio.GSOTCPv4, true: virtio.GSOTCPv6}[ipv6] | virtio.GSOECN
		if h, frame := g.receive(0); h.GSOType != want || len(frame) != len(l.frame()) {
			t.Errorf("with ECN: %d bytes, header %+v", len(frame), h)
		}
		r, g = newLargeRig(t, lro)
		r.burst(l.packet(t, r.pool, 2048))
		for i := range l.segments() {
			h, frame := g.receive(0)
			l.check(t, i, h, frame)
		}
	}
}

// Large packets of a guest, with and without the bit for congestion.
func TestPortReceivesECN(t *testing.T) {
	const tso = virtio.NetCSUM | virtio.NetHostTSO4 | virtio.NetHostTSO6
	for _, negotiated := range []bool{false, true} {
		features := tso
		if negotiated {
			features |= virtio.NetHostECN
		}
		r, g := newLargeRig(t, features)
		for _, gso := range []uint8{virtio.GSOTCPv4, virtio.GSOTCPv6} {
			h := virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16, GSOType: gso | virtio.GSOECN, GSOSize: 100}
			g.send(0, h, frameOf(0, 500))
			if !negotiated {
				quiet(t, r.port.RxQueue(0))
				continue
			}
			b := receive(t, r.port.RxQueue(0))
			if b.Flags != mbuf.RxLRO|mbuf.RxL4None || b.SegSize != 100 {
				t.Errorf("flags %#x, segments of %d", b.Flags, b.SegSize)
			}
			b.Free()
		}
		if s := r.port.Stats(); (s.RxErrors == 2) == negotiated {
			t.Errorf("negotiated %t: %d errors", negotiated, s.RxErrors)
		}
	}
}

// The embedded device gives the bit back to a driver that knows it.
func TestLoopbackECN(t *testing.T) {
	const tso = plain | virtio.NetCSUM | virtio.NetHostTSO4 | virtio.NetHostECN | virtio.NetGuestCSUM | virtio.NetGuestTSO4
	for features, want := range map[virtio.Features]uint8{tso: virtio.GSOTCPv4, tso | virtio.NetGuestECN: virtio.GSOTCPv4 | virtio.GSOECN} {
		r, _ := loopRig(t, LoopbackConfig{})
		r.start(features, 1)
		r.send(0, virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16, GSOType: virtio.GSOTCPv4 | virtio.GSOECN, GSOSize: 500, HdrLen: 54}, frameOf(7, 1800))
		if got, _ := r.receive(0); got.GSOType != want {
			t.Errorf("%v: kind %#x, want %#x", features, got.GSOType, want)
		}
	}
}

func TestPortCutsWithoutAllocation(t *testing.T) {
	r, g := newLargeRig(t, virtio.NetMrgRxbuf)
	l := largeTCP{flags: 0x10, payload: 1800, size: 300}
	frame, bufs := l.frame(), make([]*mbuf.Buf, 1)
	cut := func() {
		b := r.pool.Get()
		copy(b.Append(len(frame)), frame)
		b.Flags, b.L2Len, b.L3Len, b.L4Len, b.SegSize = mbuf.TxTSO|mbuf.TxIPv4, 14, 20, 20, uint16(l.size)
		bufs[0] = b
		if r.port.TxQueue(0).Burst(bufs) != 1 {
			t.Error("the packet was not taken")
		}
	}
	for range 5 { // the scratch grows
		cut()
	}
	if n := testing.AllocsPerRun(4, cut); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
	for i := range 10 * l.segments() {
		h, frame := g.receive(0)
		l.check(t, i%l.segments(), h, frame)
	}
}
