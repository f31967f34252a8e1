package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gopacket/gopacket"
	pkt "github.com/gopacket/gopacket/layers"

	"vionet/mbuf"
	"vionet/port"
)

// inside are the layers of a packet in a tunnel, by name.
func inside() map[string][]gopacket.SerializableLayer {
	v4, v6 := ipv4(pkt.IPProtocolTCP), ipv6(pkt.IPProtocolUDP)
	return map[string][]gopacket.SerializableLayer{
		"IPv4 TCP": {v4, tcp(v4), text(33)},
		"IPv6 UDP": {v6, udp(v6, 53), text(40)},
	}
}

func isV6(list []gopacket.SerializableLayer) bool { _, ok := list[0].(*pkt.IPv6); return ok }

func etherTypeOf(list []gopacket.SerializableLayer) pkt.EthernetType {
	if isV6(list) {
		return pkt.EthernetTypeIPv6
	}
	return pkt.EthernetTypeIPv4
}

// raw is a header that has no checksum.
func raw(b ...byte) gopacket.Payload { return b }

// tunnelled gives whole packets with right checksums: the inner packet in each
// tunnel, over IPv4 and IPv6.
func tunnelled(t testing.TB) map[string][]byte {
	all := map[string][]byte{}
	for in, list := range inside() {
		kind := etherTypeOf(list)
		withEther := append([]gopacket.SerializableLayer{ether(kind)}, list...)
		overIP := func(name string, next pkt.IPProtocol, head ...gopacket.SerializableLayer) {
			o4, o6 := ipv4(next), ipv6(next)
			all[name+" over IPv4: "+in] = packet(t, append([]gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv4), o4}, head...)...)
			all[name+" over IPv6: "+in] = packet(t, append([]gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv6), o6}, head...)...)
		}
		overUDP := func(name string, port pkt.UDPPort, head ...gopacket.SerializableLayer) {
			o4, o6 := ipv4(pkt.IPProtocolUDP), ipv6(pkt.IPProtocolUDP)
			all[name+" over IPv4: "+in] = packet(t, append([]gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv4), o4, udp(o4, port)}, head...)...)
			all[name+" over IPv6: "+in] = packet(t, append([]gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv6), o6, udp(o6, port)}, head...)...)
		}
		join := func(head gopacket.SerializableLayer, rest []gopacket.SerializableLayer) []gopacket.SerializableLayer {
			return append([]gopacket.SerializableLayer{head}, rest...)
		}
		gpe := byte(1)
		if isV6(list) {
			gpe = 2
		}
		overUDP("VXLAN", 4789, join(raw(8, 0, 0, 0, 0, 0, 42, 0), withEther)...)
		overUDP("VXLAN-GPE", 4790, join(raw(0x0c, 0, 0, gpe, 0, 0, 42, 0), list)...)
		overUDP("VXLAN-GPE Ethernet", 4790, join(raw(0x0c, 0, 0, 3, 0, 0, 42, 0), withEther)...)
		overUDP("GENEVE", 6081, join(raw(1, 0, byte(kind>>8), byte(kind), 0, 0, 1, 0, 9, 9, 9, 0), list)...)
		overUDP("GENEVE Ethernet", 6081, join(raw(0, 0, 0x65, 0x58, 0, 0, 1, 0), withEther)...)
		overUDP("GTP", 2152, join(raw(0x30, 0xff, 0, 0, 0, 0, 0, 1), list)...)
		overUDP("GTP with sequence", 2152, join(raw(0x32, 0xff, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0), list)...)
		overIP("GRE", pkt.IPProtocolGRE, join(raw(0, 0, byte(kind>>8), byte(kind)), list)...)
		overIP("GRE with key", pkt.IPProtocolGRE, join(raw(0x30, 0, byte(kind>>8), byte(kind), 0, 0, 0, 5, 0, 0, 0, 6), list)...)
		overIP("GRE Ethernet", pkt.IPProtocolGRE, join(raw(0, 0, 0x65, 0x58), withEther)...)
		proto := pkt.IPProtocolIPv4
		if isV6(list) {
			proto = pkt.IPProtocolIPv6
		}
		overIP("IPIP", proto, list...)
	}
	return all
}

// spoil writes nonsense into every checksum of the packet, those of a packet in
// a tunnel too, but for those that are not there.
func spoil(frame []byte) []byte {
	frame = bytes.Clone(frame)
	h, ok := parse(frame, len(frame))
	if !ok {
		return frame
	}
	l := layers{inner: h}
	l.enter(frame, TunnelPorts{}.orDefault())
	bad := func(at int) {
		if field := frame[at:]; binary.BigEndian.Uint16(field) != 0 {
			binary.BigEndian.PutUint16(field, binary.BigEndian.Uint16(field)^0x5a5a)
		}
	}
	for _, h := range []headers{l.inner, l.outer} {
		if h.l3 == 0 {
			continue
		}
		if !h.ipv6 {
			bad(h.ip() + ipv4Checksum)
		}
		switch h.proto {
		case protoTCP:
			bad(h.payload() + tcpChecksum)
		case protoUDP:
			bad(h.payload() + udpChecksum)
		case protoSCTP:
			bad(h.payload() + sctpChecksum)
		}
	}
	return frame
}

func TestCsumInTunnels(t *testing.T) {
	for name, want := range tunnelled(t) {
		h, _ := parse(want, len(want))
		l := layers{inner: h}
		l.enter(want, TunnelPorts{}.orDefault())
		if l.tunnel == noTunnel || l.inner.proto == protoNone {
			t.Errorf("%s: no tunnel was found, or nothing in it", name)
			continue
		}
		bad := spoil(want)
		for _, segSize := range []int{0, 150} {
			r := newRig(t, StreamConfig{KeepMACs: true, ParseTunnel: true}, bad)
			r.rx.segSize = segSize
			Csum.Forward(r.Stream)
			if got := r.tx.sent[0]; !bytes.Equal(got.Bytes, want) || got.Flags != 0 {
				t.Errorf("%s, segments of %d: flags %#x\n%x, want\n%x", name, segSize, got.Flags, got.Bytes, want)
			}
		}

		// Without parse-tunnel only the outer headers count.
		r := newRig(t, StreamConfig{KeepMACs: true}, bad)
		Csum.Forward(r.Stream)
		if got := r.tx.sent[0].Bytes; !bytes.Equal(got[l.inner.at:], bad[l.inner.at:]) && l.outer.proto != protoUDP {
			t.Errorf("%s: the inner packet was changed", name)
		}
	}
}

// With checksum offload the port fills in the inner checksum, unless the tunnel
// has one that covers it.
func TestCsumOffloadInTunnels(t *testing.T) {
	v4 := ipv4(pkt.IPProtocolTCP)
	inner := []gopacket.SerializableLayer{v4, tcp(v4), text(20)}
	gre := packet(t, append([]gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv4), ipv4(pkt.IPProtocolGRE), raw(0, 0, 8, 0)}, inner...)...)
	o4 := ipv4(pkt.IPProtocolUDP)
	vxlan := packet(t, append([]gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv4), o4, udp(o4, 4789), raw(8, 0, 0, 0, 0, 0, 42, 0), ether(pkt.EthernetTypeIPv4)}, inner...)...)
	plain := bytes.Clone(vxlan)
	plain[40], plain[41] = 0, 0 // no UDP checksum
	for name, tt := range map[string]struct {
		frame []byte
		asks  bool
		l2    uint16
	}{
		"GRE": {gre, true, 38}, "VXLAN": {vxlan, false, 64}, "VXLAN without checksum": {plain, true, 64},
	} {
		r := newRig(t, StreamConfig{KeepMACs: true, ParseTunnel: true, TxOffloads: port.TxTCPCksum, TSOSize: 5}, spoil(tt.frame))
		Csum.Forward(r.Stream)
		got := r.tx.sent[0]
		want := mbuf.Flags(0)
		if tt.asks {
			want = mbuf.TxTCPChecksum | mbuf.TxIPv4
		}
		if got.Flags != want || got.L2 != tt.l2 || got.L3 != 20 || got.L4 != 20 {
			t.Errorf("%s: %+v", name, got)
		}
		if tt.asks {
			field := int(tt.l2) + 20 + tcpChecksum // the port's to fill in
			copy(got.Bytes[field:], tt.frame[field:field+2])
		}
		if !bytes.Equal(got.Bytes, tt.frame) {
			t.Errorf("%s:\n%x, want\n%x", name, got.Bytes, tt.frame)
		}
	}
}

func TestNoTunnel(t *testing.T) {
	o4 := ipv4(pkt.IPProtocolUDP)
	v4 := ipv4(pkt.IPProtocolTCP)
	whole := packet(t, ether(pkt.EthernetTypeIPv4), o4, udp(o4, 4789), raw(8, 0, 0, 0, 0, 0, 42, 0), ether(pkt.EthernetTypeIPv4), v4, tcp(v4), text(20))
	for name, list := range map[string][]gopacket.SerializableLayer{
		"short VXLAN":       {o4, udp(o4, 4789), raw(8, 0, 0)},
		"VXLAN with ARP":    {o4, udp(o4, 4789), raw(8, 0, 0, 0, 0, 0, 42, 0), ether(pkt.EthernetTypeARP), text(28)},
		"GTP control":       {o4, udp(o4, 2152), raw(0x30, 1, 0, 0, 0, 0, 0, 0), text(8)},
		"VXLAN-GPE of NSH":  {o4, udp(o4, 4790), raw(0xc, 0, 0, 4, 0, 0, 0, 0), text(8)},
		"GENEVE of nothing": {o4, udp(o4, 6081), raw(0x3f, 0, 8, 0, 0, 0, 0, 0), text(8)},
		"GRE of PPP":        {ipv4(pkt.IPProtocolGRE), raw(0, 0, 0x88, 0xb), text(8)},
		"empty GRE":         {ipv4(pkt.IPProtocolGRE)},
		"IPIP of nonsense":  {ipv4(pkt.IPProtocolIPv4), text(20)},
		"another port":      {o4, udp(o4, 4788), raw(8, 0, 0, 0, 0, 0, 42, 0), ether(pkt.EthernetTypeIPv4), v4, tcp(v4)},
	} {
		want := packet(t, append([]gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv4)}, list...)...)
		r := newRig(t, StreamConfig{KeepMACs: true, ParseTunnel: true}, spoil(want))
		Csum.Forward(r.Stream)
		if got := r.tx.sent[0].Bytes; !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, want\n%x", name, got, want)
		}
	}
	// Every cut of a packet in a tunnel is taken without harm.
	for n := range len(whole) {
		r := newRig(t, StreamConfig{KeepMACs: true, ParseTunnel: true}, whole[:n+1])
		Csum.Forward(r.Stream)
		r.accounted(t)
	}
}

func FuzzTunnel(f *testing.F) {
	for _, frame := range tunnelled(f) {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) == 0 || len(frame) > 1500 {
			return
		}
		r := newRig(t, StreamConfig{ParseTunnel: true, TxOffloads: port.TxUDPCksum}, frame)
		Csum.Forward(r.Stream)
		if got := r.tx.sent[0]; len(got.Bytes) != len(frame) || got.Flags != 0 && int(got.L2+got.L3+got.L4) > len(frame) {
			t.Errorf("%+v of a frame of %d bytes", got, len(frame))
		}
		r.accounted(t)
	})
}
