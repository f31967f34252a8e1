package vhost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// udp4 is UDP over IPv4 with 3 bytes of payload. The sum of its pseudo header is
// 0a00+0001+0a00+0002+0011+000b = 0x141f; with 1000+2000+000b+aabb+cc00 that is
// 0x1bae5 -> 0xbae6, and its complement 0x4519 the checksum.
func udp4() []byte {
	frame := make([]byte, 14+20+8+3)
	copy(frame[12:], []byte{0x08, 0x00, 0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	copy(frame[34:], []byte{0x10, 0x00, 0x20, 0x00, 0, 11, 0, 0, 0xaa, 0xbb, 0xcc})
	return frame
}

// udp6 is the same over IPv6, from ::1 to ::2. The sum of its pseudo header is
// 1+2+11+b = 0x1f; with 1000+2000+000b+aabb+cc00 that is 0x1a6e5 -> 0xa6e6, and
// its complement 0x5919 the checksum.
func udp6() []byte {
	frame := make([]byte, 14+40+8+3)
	copy(frame[12:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 11, 17, 64})
	frame[14+8+15], frame[14+24+15] = 1, 2
	copy(frame[54:], []byte{0x10, 0x00, 0x20, 0x00, 0, 11, 0, 0, 0xaa, 0xbb, 0xcc})
	return frame
}

// udpPacket asks for the checksum of udp4 or udp6; its segments hold room bytes.
func udpPacket(tb testing.TB, pool *mbuf.Pool, ipv6 bool, room int) *mbuf.Buf {
	frame, flag, l3 := udp4(), mbuf.TxIPv4, uint16(20)
	if ipv6 {
		frame, flag, l3 = udp6(), mbuf.TxIPv6, 40
	}
	b := packetOf(tb, pool, frame, room)
	b.Flags, b.L2Len, b.L3Len = flag|mbuf.TxUDPChecksum, 14, l3
	return b
}

func TestPortChecksums(t *testing.T) {
	for _, tt := range []struct {
		ipv6      bool
		start     uint16
		left, sum uint16 // what the field holds before and after
	}{{false, 34, 0x141f, 0x4519}, {true, 54, 0x001f, 0x5919}} {
		for _, offload := range []bool{false, true} {
			for _, tagged := range []bool{false, true} {
				t.Run(fmt.Sprintf("ipv6=%v,offload=%v,tagged=%v", tt.ipv6, offload, tagged), func(t *testing.T) {
					// VLAN insertion is asked for of each side, and stripping where there
					// is an offload on reception.
					conf := port.Config{TxOffloads: port.TxUDPCksum | port.TxVLANInsert | port.TxMultiSegs}
					if offload {
						conf.RxOffloads = port.RxUDPCksum | port.RxVLANStrip
					}
					r := newPortRig(t, PortConfig{Packed: true}, conf)
					g := startGuest(t, r.path, driver.Options{}, conf)
					check := func(way string, b *mbuf.Buf) {
						t.Helper()
						defer b.Free()
						frame, start := bytesOf(b), tt.start
						want := udp4()
						if tt.ipv6 {
							want = udp6()
						}
						if tagged && !offload {
							want = append(append(want[:12:12], 0x81, 0x00, 0x20, 0x05), want[12:]...)
							start += 4
						}
						field, flags := tt.sum, mbuf.Flags(0)
						if offload {
							field, flags = tt.left, mbuf.RxL4None
							if b.CSumStart != start || b.CSumOffset != 6 {
								t.Errorf("%s: checksum from %d at %d", way, b.CSumStart, b.CSumOffset)
							}
							if tagged {
								flags |= mbuf.RxVLANStripped
								if b.VLAN != 0x2005 {
									t.Errorf("%s: tag %#x", way, b.VLAN)
								}
							}
						}
						binary.BigEndian.PutUint16(want[start+6:], field)
						if b.Flags != flags || !bytes.Equal(frame, want) {
							t.Errorf("%s: flags %#x\n%x\nwant %#x\n%x", way, b.Flags, frame, flags, want)
						}
					}
					for _, room := range []int{2048, int(tt.start) + 9, int(tt.start) + 10} {
						down, up := udpPacket(t, r.pool, tt.ipv6, room), udpPacket(t, g.pool, tt.ipv6, room)
						if tagged {
							for _, b := range []*mbuf.Buf{down, up} {
								b.Flags |= mbuf.TxVLAN
								b.VLAN = 0x2005
							}
						}
						check("to the guest", pass(t, r.port.TxQueue(0), g.port.RxQueue(0), down))
						check("from the guest", pass(t, g.port.TxQueue(0), r.port.RxQueue(0), up))
					}
				})
			}
		}
	}
}

// tcpPacket asks for segmentation of 1746 bytes of data in pieces of 500.
func tcpPacket(tb testing.TB, pool *mbuf.Pool) *mbuf.Buf {
	frame := frameOf(7, 1800)
	copy(frame[12:], []byte{0x08, 0x00, 0x45, 0, 0x06, 0xfa, 0, 0, 0, 0, 64, 6, 0xff, 0xff, 10, 0, 0, 1, 10, 0, 0, 2})
	frame[46], frame[47] = 0x50, 0x10 // 20 bytes of TCP header, ACK
	b := packetOf(tb, pool, frame, 2048)
	b.Flags = mbuf.TxTSO | mbuf.TxIPv4
	b.L2Len, b.L3Len, b.L4Len, b.SegSize = 14, 20, 20, 500
	return b
}

func TestPortSegmentation(t *testing.T) {
	offloads := port.Config{
		RxOffloads: port.RxTCPLRO | port.RxTCPCksum,
		TxOffloads: port.TxTCPTSO | port.TxTCPCksum,
	}
	r := newPortRig(t, PortConfig{TSO: true}, offloads)
	g := startGuest(t, r.path, driver.Options{}, offloads)
	for way, b := range map[string]*mbuf.Buf{
		"to the guest":   pass(t, r.port.TxQueue(0), g.port.RxQueue(0), tcpPacket(t, r.pool)),
		"from the guest": pass(t, g.port.TxQueue(0), r.port.RxQueue(0), tcpPacket(t, g.pool)),
	} {
		frame := bytesOf(b)
		// 0a00+0001+0a00+0002+0006+06e6, of 1766 bytes behind the IP header
		if sum := binary.BigEndian.Uint16(frame[34+16:]); sum != 0x1aef {
			t.Errorf("%s: pseudo header's sum %#x", way, sum)
		}
		if b.Flags != mbuf.RxLRO|mbuf.RxL4None || b.SegSize != 500 || b.CSumStart != 34 || b.CSumOffset != 16 || len(frame) != 1800 {
			t.Errorf("%s: %+v", way, b)
		}
		// 4500+06fa+0000+0000+4006+0a00+0001+0a00+0002 = 0xa003, ~ = 0x5ffc
		if sum := binary.BigEndian.Uint16(frame[14+10:]); sum != 0x5ffc {
			t.Errorf("%s: IP checksum %#x", way, sum)
		}
		b.Free()
	}
}

// What cannot be done for a packet counts as an error, and the packet is gone.
func TestPortRefusesRequests(t *testing.T) {
	r := newPortRig(t, PortConfig{TSO: true}, port.Config{TxOffloads: port.TxTCPTSO | port.TxUDPCksum | port.TxVLANInsert})
	g := startGuest(t, r.path, driver.Options{}, port.Config{}) // takes no large frames
	change := func(f func(*mbuf.Buf)) *mbuf.Buf {
		b := udpPacket(t, r.pool, false, 2048)
		f(b)
		return b
	}
	long := tcpPacket(t, r.pool)
	long.L4Len = 24
	bad := []*mbuf.Buf{
		long,
		change(func(b *mbuf.Buf) { b.Flags = mbuf.TxTCPChecksum | mbuf.TxIPv4 }), // not enabled
		change(func(b *mbuf.Buf) { b.Flags = mbuf.TxUSO | mbuf.TxIPv4 }),
		change(func(b *mbuf.Buf) { b.Flags = mbuf.TxUDPChecksum }), // of which protocol?
		change(func(b *mbuf.Buf) { b.L3Len = 19 }),
		change(func(b *mbuf.Buf) { b.L2Len = 60_000 }),
		change(func(b *mbuf.Buf) { b.L2Len, b.L3Len = 65_000, 65_000 }),
		change(func(b *mbuf.Buf) { b.Flags = mbuf.TxVLAN; b.Truncate(11) }),
		change(func(b *mbuf.Buf) { b.Truncate(41) }),
	}
	count := uint64(len(bad))
	if n := r.port.TxQueue(0).Burst(bad); n != len(bad) {
		t.Errorf("Burst = %d of %d", n, len(bad))
	}
	quiet(t, g.port.RxQueue(0))
	if s := r.port.Stats(); s.TxErrors != count || s.TxPackets != 0 || s.Tx[0].Errors != count {
		t.Errorf("stats %+v, want %d errors", s, count)
	}
}

// A guest's header that does not fit its frame.
func TestPortRefusesHeaders(t *testing.T) {
	r := newPortRig(t, PortConfig{TSO: true}, port.Config{})
	f, err := Dial(r.path, FrontendConfig{QueueSize: rigSize, Log: logTo(t)})
	r.must(err)
	raw := newRig(t, f, 1)
	raw.start(plain|virtio.NetCSUM|virtio.NetHostTSO4, 1)
	bad := []virtio.NetHeader{
		{Flags: virtio.HdrNeedsCSum, CSumStart: 90, CSumOffset: 9},
		{Flags: virtio.HdrNeedsCSum, CSumStart: 0xffff, CSumOffset: 0xffff},
		{GSOType: virtio.GSOTCPv4},
		{GSOType: virtio.GSOTCPv6, GSOSize: 100}, // not negotiated
		{GSOType: virtio.GSOUDP, GSOSize: 100},
		{GSOType: 0xff, GSOSize: 100},
	}
	for _, h := range bad {
		raw.send(0, h, frameOf(0, 100))
	}
	raw.send(0, virtio.NetHeader{}, make([]byte, 13))
	raw.send(0, virtio.NetHeader{}, frameOf(1, 100))
	b := receive(t, r.port.RxQueue(0))
	if got := bytesOf(b); !bytes.Equal(got, frameOf(1, 100)) || b.Flags != 0 {
		t.Errorf("flags %#x, %x", b.Flags, got)
	}
	b.Free()
	if s := r.port.Stats(); s.RxErrors != uint64(len(bad)+1) || s.RxPackets != 1 {
		t.Errorf("stats %+v, want %d errors", s, len(bad)+1)
	}
}
