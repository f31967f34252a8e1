package engine

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"

	"github.com/gopacket/gopacket"
	pkt "github.com/gopacket/gopacket/layers"
)

// packet serialises layers with right lengths and checksums.
func packet(t testing.TB, list ...gopacket.SerializableLayer) []byte {
	t.Helper()
	out := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, list...); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var (
	macA = net.HardwareAddr{0x0a, 0, 0, 0, 0, 1}
	macB = net.HardwareAddr{0x0a, 0, 0, 0, 0, 2}
	ip4A = net.IP{10, 0, 0, 1}
	ip4B = net.IP{10, 0, 0, 2}
	ip6A = net.ParseIP("2001:db8::1")
	ip6B = net.ParseIP("2001:db8::2")
)

// ether is an Ethernet header from A to B.
func ether(kind pkt.EthernetType) *pkt.Ethernet {
	return &pkt.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: kind}
}

func ipv4(proto pkt.IPProtocol) *pkt.IPv4 {
	return &pkt.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: proto, SrcIP: ip4A, DstIP: ip4B}
}

func ipv6(proto pkt.IPProtocol) *pkt.IPv6 {
	return &pkt.IPv6{Version: 6, HopLimit: 64, NextHeader: proto, SrcIP: ip6A, DstIP: ip6B}
}

// udp is a UDP header whose pseudo-header is that of ip.
func udp(ip gopacket.NetworkLayer, dst pkt.UDPPort) *pkt.UDP {
	u := &pkt.UDP{SrcPort: 1111, DstPort: dst}
	u.SetNetworkLayerForChecksum(ip)
	return u
}

func tcp(ip gopacket.NetworkLayer) *pkt.TCP {
	h := &pkt.TCP{SrcPort: 2222, DstPort: 80, Seq: 7, DataOffset: 5, ACK: true, Window: 1000}
	h.SetNetworkLayerForChecksum(ip)
	return h
}

// text is a payload of n bytes.
func text(n int) gopacket.Payload {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// sample is a packet whose checksums are to be filled in.
type sample struct {
	name  string
	frame []byte
}

// samples gives packets of all kinds with wrong checksums, in a fixed order.
func samples(t testing.TB) []sample {
	list := map[string][]byte{}
	add := func(name string, layers ...gopacket.SerializableLayer) { list[name] = packet(t, layers...) }
	tag := func(id uint16, kind pkt.EthernetType) *pkt.Dot1Q { return &pkt.Dot1Q{VLANIdentifier: id, Type: kind} }
	for _, n := range []int{0, 1, 18, 1400} {
		payload := text(n)
		tcp4, udp4, tcp6, udp6 := ipv4(pkt.IPProtocolTCP), ipv4(pkt.IPProtocolUDP), ipv6(pkt.IPProtocolTCP), ipv6(pkt.IPProtocolUDP)
		size := fmt.Sprintf(" of %d", n)
		add("TCP"+size, ether(pkt.EthernetTypeIPv4), tcp4, tcp(tcp4), payload)
		add("UDP"+size, ether(pkt.EthernetTypeIPv4), udp4, udp(udp4, 53), payload)
		add("TCP over IPv6"+size, ether(pkt.EthernetTypeIPv6), tcp6, tcp(tcp6), payload)
		add("UDP over IPv6"+size, ether(pkt.EthernetTypeIPv6), udp6, udp(udp6, 53), payload)
		add("VLAN TCP"+size, ether(pkt.EthernetTypeDot1Q), tag(5, pkt.EthernetTypeIPv4), tcp4, tcp(tcp4), payload)
		add("QinQ UDP over IPv6"+size, ether(pkt.EthernetTypeQinQ), tag(5, pkt.EthernetTypeDot1Q), tag(6, pkt.EthernetTypeIPv6), udp6, udp(udp6, 53), payload)
	}
	options := ipv4(pkt.IPProtocolTCP)
	options.Options = []pkt.IPv4Option{{OptionType: 1}, {OptionType: 1}, {OptionType: 1}, {OptionType: 0}}
	add("TCP with IPv4 options", ether(pkt.EthernetTypeIPv4), options, tcp(options), text(11))
	add("ICMP", ether(pkt.EthernetTypeIPv4), ipv4(pkt.IPProtocolICMPv4), &pkt.ICMPv4{TypeCode: pkt.CreateICMPv4TypeCode(8, 0)}, text(11))
	add("ARP", ether(pkt.EthernetTypeARP), arp(1, macA, macB, ip4A, ip4B))
	add("LLDP", ether(pkt.EthernetTypeLinkLayerDiscovery), text(50))
	sctp := ipv4(pkt.IPProtocolSCTP)
	add("SCTP", ether(pkt.EthernetTypeIPv4), sctp, &pkt.SCTP{SrcPort: 1, DstPort: 2, VerificationTag: 3}, text(33))
	list["IPv4 fragment"] = bytes.Clone(list["TCP of 18"])
	list["IPv4 fragment"][20], list["IPv4 fragment"][60] = 0x20, 0xff // it goes on, and the checksum is that of the whole
	behind := ipv6(pkt.IPProtocolIPv6Destination)
	udpBehind := udp(behind, 53)
	add("UDP behind IPv6 options", ether(pkt.EthernetTypeIPv6), behind, raw(17, 0, 1, 4, 0, 0, 0, 0), udpBehind, text(9))
	list["padded UDP"] = append(list["UDP of 1"], 1, 2, 3, 4, 5, 6, 7)
	for _, name := range []string{"UDP of 18", "UDP over IPv6 of 18"} {
		frame := bytes.Clone(list[name])
		h, _ := parse(frame, len(frame))
		clear(frame[h.payload()+udpChecksum : h.payload()+udpLen])
		list[name+" without checksum"] = frame
	}
	maps.Copy(list, tunnelled(t))
	var out []sample
	for _, name := range slices.Sorted(maps.Keys(list)) {
		out = append(out, sample{name, spoil(list[name])})
	}
	return out
}
