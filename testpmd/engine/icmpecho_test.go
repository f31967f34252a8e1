package engine

import (
	"bytes"
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	pkt "github.com/gopacket/gopacket/layers"

	"vionet/offload"
)

// source is the Tx port of every rig.
var source = net.HardwareAddr{2, 0, 0, 0, 0xaa, 1}

func arp(op uint16, srcMAC, dstMAC net.HardwareAddr, src, dst net.IP) *pkt.ARP {
	return &pkt.ARP{AddrType: pkt.LinkTypeEthernet, Protocol: pkt.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
		SourceHwAddress: srcMAC, SourceProtAddress: src, DstHwAddress: dstMAC, DstProtAddress: dst}
}

func solicitation(ip *pkt.IPv6, options ...pkt.ICMPv6Option) []gopacket.SerializableLayer {
	icmp := &pkt.ICMPv6{TypeCode: pkt.CreateICMPv6TypeCode(135, 0)}
	icmp.SetNetworkLayerForChecksum(ip)
	return []gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv6), ip, icmp, &pkt.ICMPv6NeighborSolicitation{TargetAddress: ip6B, Options: options}}
}

func TestICMPEcho(t *testing.T) {
	tag := func(kind pkt.EthernetType) *pkt.Dot1Q { return &pkt.Dot1Q{VLANIdentifier: 5, Type: kind} }
	back := func(src, dst net.HardwareAddr, kind pkt.EthernetType) *pkt.Ethernet {
		return &pkt.Ethernet{SrcMAC: src, DstMAC: dst, EthernetType: kind}
	}
	echo4 := func(kind uint8) *pkt.ICMPv4 {
		return &pkt.ICMPv4{TypeCode: pkt.CreateICMPv4TypeCode(kind, 0), Id: 7, Seq: 9}
	}
	echo6 := func(ip *pkt.IPv6, kind uint8) *pkt.ICMPv6 {
		icmp := &pkt.ICMPv6{TypeCode: pkt.CreateICMPv6TypeCode(kind, 0)}
		icmp.SetNetworkLayerForChecksum(ip)
		return icmp
	}
	swapped4 := func(ip *pkt.IPv4) *pkt.IPv4 { ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP; return ip }
	swapped6 := func(ip *pkt.IPv6) *pkt.IPv6 { ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP; return ip }

	group4, answer4 := ipv4(pkt.IPProtocolICMPv4), ipv4(pkt.IPProtocolICMPv4)
	group4.DstIP = net.IP{224, 0, 0, 1}
	answer4.SrcIP, answer4.DstIP = net.IP{10, 0, 0, 2}, ip4A // another one than 10.0.0.1

	group6, answer6 := ipv6(pkt.IPProtocolICMPv6), ipv6(pkt.IPProtocolICMPv6)
	group6.DstIP = net.ParseIP("ff02::1")
	answer6.SrcIP, answer6.DstIP = net.ParseIP("fe80::ff:fe00:aa01"), ip6A

	question, advert := ipv6(pkt.IPProtocolICMPv6), ipv6(pkt.IPProtocolICMPv6)
	question.HopLimit, advert.HopLimit = 255, 255
	question.DstIP = net.ParseIP("ff02::1:ff00:2")
	advert.SrcIP, advert.DstIP = ip6B, ip6A
	advertICMP := echo6(advert, 136)
	advertisement := packet(t, back(source, macA, pkt.EthernetTypeIPv6), advert, advertICMP, &pkt.ICMPv6NeighborAdvertisement{
		Flags: 0x60, TargetAddress: ip6B, Options: pkt.ICMPv6Options{{Type: pkt.ICMPv6OptTargetAddress, Data: source}}})

	in4, in6 := ipv4(pkt.IPProtocolICMPv4), ipv6(pkt.IPProtocolICMPv6)
	out4, out6 := swapped4(ipv4(pkt.IPProtocolICMPv4)), swapped6(ipv6(pkt.IPProtocolICMPv6))
	for _, tt := range []struct {
		name     string
		in, want []byte
	}{
		{"ARP",
			packet(t, ether(pkt.EthernetTypeARP), arp(1, macA, make([]byte, 6), ip4A, ip4B)),
			packet(t, back(source, macA, pkt.EthernetTypeARP), arp(2, source, macA, ip4B, ip4A))},
		{"ARP in a VLAN",
			packet(t, ether(pkt.EthernetTypeDot1Q), tag(pkt.EthernetTypeARP), arp(1, macA, make([]byte, 6), ip4A, ip4B)),
			packet(t, back(source, macA, pkt.EthernetTypeDot1Q), tag(pkt.EthernetTypeARP), arp(2, source, macA, ip4B, ip4A))},
		{"ICMP echo",
			packet(t, ether(pkt.EthernetTypeIPv4), in4, echo4(8), text(56)),
			packet(t, back(macB, macA, pkt.EthernetTypeIPv4), out4, echo4(0), text(56))},
		{"ICMP echo to a group",
			packet(t, back(macA, net.HardwareAddr{1, 0, 0x5e, 0, 0, 1}, pkt.EthernetTypeIPv4), group4, echo4(8), text(56)),
			packet(t, back(source, macA, pkt.EthernetTypeIPv4), answer4, echo4(0), text(56))},
		{"ICMPv6 echo in a VLAN",
			packet(t, ether(pkt.EthernetTypeDot1Q), tag(pkt.EthernetTypeIPv6), in6, echo6(in6, 128), text(56)),
			packet(t, back(macB, macA, pkt.EthernetTypeDot1Q), tag(pkt.EthernetTypeIPv6), out6, echo6(out6, 129), text(56))},
		{"ICMPv6 echo to a group",
			packet(t, back(macA, net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, pkt.EthernetTypeIPv6), group6, echo6(group6, 128), text(56)),
			packet(t, back(source, macA, pkt.EthernetTypeIPv6), answer6, echo6(answer6, 129), text(56))},
		{"neighbour solicitation",
			packet(t, solicitation(question, pkt.ICMPv6Option{Type: pkt.ICMPv6OptSourceAddress, Data: macA})...), advertisement},
		{"neighbour solicitation without an address",
			packet(t, solicitation(question)...), advertisement},
		{"neighbour solicitation with more options",
			packet(t, solicitation(question, pkt.ICMPv6Option{Type: pkt.ICMPv6OptSourceAddress, Data: macA}, pkt.ICMPv6Option{Type: 14, Data: make([]byte, 6)})...), advertisement},
	} {
		r := newRig(t, StreamConfig{}, tcpFrame(t, 10), tt.in, []byte{1, 2, 3}, tcpFrame(t, 20))
		if n := ICMPEcho.Forward(r.Stream); n != 4 || len(r.tx.sent) != 1 {
			t.Errorf("%s: %d received, %d answers", tt.name, n, len(r.tx.sent))
			continue
		}
		if got := r.tx.sent[0].Bytes; !bytes.Equal(got, tt.want) {
			t.Errorf("%s:\n%x, want\n%x", tt.name, got, tt.want)
		}
		r.accounted(t)
	}
}

func TestICMPEchoKeepsSilent(t *testing.T) {
	in4 := ipv4(pkt.IPProtocolICMPv4)
	echo := packet(t, ether(pkt.EthernetTypeIPv4), in4, &pkt.ICMPv4{TypeCode: pkt.CreateICMPv4TypeCode(8, 0)}, text(56))
	code := bytes.Clone(echo)
	code[35] = 1
	fragment := bytes.Clone(echo)
	fragment[20] = 0x20
	duplicate := ipv6(pkt.IPProtocolICMPv6)
	duplicate.SrcIP = net.IPv6zero
	request := packet(t, ether(pkt.EthernetTypeARP), arp(1, macA, make([]byte, 6), ip4A, ip4B))
	tokenRing := bytes.Clone(request)
	tokenRing[15] = 6
	for name, frame := range map[string][]byte{
		"ARP reply":                      packet(t, ether(pkt.EthernetTypeARP), arp(2, macA, macB, ip4A, ip4B)),
		"ARP cut short":                  request[:41],
		"ARP of token ring":              tokenRing,
		"ICMP echo answer":               packet(t, ether(pkt.EthernetTypeIPv4), in4, &pkt.ICMPv4{}, text(56)),
		"ICMP code 1":                    code,
		"ICMP fragment":                  fragment,
		"a test for duplicate addresses": packet(t, solicitation(duplicate)...),
		"LLDP":                           packet(t, ether(pkt.EthernetTypeLinkLayerDiscovery), text(40)),
	} {
		r := newRig(t, StreamConfig{}, frame)
		if n := ICMPEcho.Forward(r.Stream); n != 1 || len(r.tx.sent) != 0 {
			t.Errorf("%s: %d received, answered with %+v", name, n, r.tx.sent)
		}
		r.accounted(t)
	}
	// Damage is not made good.
	echo[60] ^= 1
	r := newRig(t, StreamConfig{}, echo)
	ICMPEcho.Forward(r.Stream)
	if got := r.tx.sent[0].Bytes; offload.Checksum(got[34:]) == 0 {
		t.Error("the answer to a damaged request has a right checksum")
	}
}

func FuzzICMPEcho(f *testing.F) {
	f.Add(packet(f, ether(pkt.EthernetTypeARP), arp(1, macA, make([]byte, 6), ip4A, ip4B)), uint16(0))
	f.Add(packet(f, solicitation(ipv6(pkt.IPProtocolICMPv6))...), uint16(60))
	f.Add(packet(f, ether(pkt.EthernetTypeIPv4), ipv4(pkt.IPProtocolICMPv4), &pkt.ICMPv4{TypeCode: pkt.CreateICMPv4TypeCode(8, 0)}), uint16(0))
	f.Fuzz(func(t *testing.T, frame []byte, segSize uint16) {
		if len(frame) == 0 || len(frame) > 1500 {
			return
		}
		r := newRig(t, StreamConfig{}, frame)
		r.rx.segSize = max(int(segSize), 16)
		ICMPEcho.Forward(r.Stream)
		r.accounted(t)
	})
}
