package engine

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pkt "github.com/gopacket/gopacket/layers"

	"vionet/port"
)

var bufAddress = regexp.MustCompile(`mbuf=0x[0-9a-f]+`)

func TestCsumTells(t *testing.T) {
	var out strings.Builder
	w := &Watch{Out: &out}
	w.SetLevel(1)
	r := newRig(t, StreamConfig{RxPort: 1, Watch: w, ParseTunnel: true, TSOSize: 1000, TxOffloads: port.TxTCPCksum | port.TxUDPCksum | port.TxTCPTSO},
		tcpFrame(t, 100), tcpFrame(t, 1600), tunnelled(t)["VXLAN over IPv6: IPv4 TCP"])
	Csum.Forward(r.Stream)
	const unknown = "flags=RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN RTE_MBUF_F_RX_OUTER_L4_CKSUM_UNKNOWN \n"
	want := []string{
		`-----------------
port=1, mbuf=?, pkt_len=154, nb_segs=1:
rx: l2_len=14 ethertype=800 l3_len=20 l4_proto=6 l4_len=20 ` + unknown +
			`tx: m->l2_len=14 m->l3_len=20 m->l4_len=20
tx: flags=RTE_MBUF_F_TX_TCP_CKSUM RTE_MBUF_F_TX_IPV4 
`,
		`-----------------
port=1, mbuf=?, pkt_len=1654, nb_segs=1:
rx: l2_len=14 ethertype=800 l3_len=20 l4_proto=6 l4_len=20 ` + unknown +
			`tx: m->l2_len=14 m->l3_len=20 m->l4_len=20
tx: m->tso_segsz=1000
tx: flags=RTE_MBUF_F_TX_IP_CKSUM RTE_MBUF_F_TX_L4_NO_CKSUM RTE_MBUF_F_TX_TCP_SEG RTE_MBUF_F_TX_IPV4 
`,
		`-----------------
port=1, mbuf=?, pkt_len=157, nb_segs=1:
rx: l2_len=30 ethertype=800 l3_len=20 l4_proto=6 l4_len=20 ` + unknown +
			`rx: outer_l2_len=14 outer_ethertype=86dd outer_l3_len=40
tx: m->l2_len=84 m->l3_len=20 m->l4_len=20
tx: m->outer_l2_len=0 m->outer_l3_len=0
tx: flags=RTE_MBUF_F_TX_L4_NO_CKSUM RTE_MBUF_F_TX_IPV4 RTE_MBUF_F_TX_OUTER_IPV6 RTE_MBUF_F_TX_TUNNEL_VXLAN 
`,
	}
	got := csumBlock.FindAllString(bufAddress.ReplaceAllString(out.String(), "mbuf=?"), -1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFilter(t *testing.T) {
	v4, v6 := ipv4(pkt.IPProtocolTCP), ipv6(pkt.IPProtocolUDP)
	frames := map[string][]byte{
		"tcp4":   packet(t, ether(pkt.EthernetTypeIPv4), v4, tcp(v4), text(10)),
		"udp6":   packet(t, ether(pkt.EthernetTypeDot1Q), &pkt.Dot1Q{VLANIdentifier: 5, Type: pkt.EthernetTypeIPv6}, v6, udp(v6, 53), text(10)),
		"icmp":   packet(t, ether(pkt.EthernetTypeIPv4), ipv4(pkt.IPProtocolICMPv4), &pkt.ICMPv4{}),
		"icmp6":  packet(t, ether(pkt.EthernetTypeIPv6), ipv6(pkt.IPProtocolICMPv6), text(8)),
		"arp":    packet(t, ether(pkt.EthernetTypeARP), arp(1, macA, macB, ip4A, ip4B)),
		"short":  {1, 2, 3},
		"broken": packet(t, ether(pkt.EthernetTypeIPv4), text(10)),
	}
	for words, want := range map[string]string{
		"":                              "arp broken icmp icmp6 short tcp4 udp6",
		"tcp":                           "tcp4",
		"udp":                           "udp6",
		"sctp":                          "",
		"icmp":                          "icmp",
		"icmp6":                         "icmp6",
		"arp":                           "arp",
		"ip":                            "broken icmp tcp4",
		"ip6":                           "icmp6 udp6",
		"host 10.0.0.1":                 "arp icmp tcp4",
		"host ::ffff:10.0.0.2":          "arp icmp tcp4",
		"host 10.0.0.3":                 "",
		"host 2001:db8::2":              "icmp6 udp6",
		"port 53":                       "udp6",
		"port 2222":                     "tcp4",
		"port 80 and tcp":               "tcp4",
		"host 10.0.0.1 and port 80":     "tcp4",
		"host 10.0.0.1 and arp":         "arp",
		"host 10.0.0.1 and udp":         "",
		"ip and host 10.0.0.2 and icmp": "icmp",
	} {
		f, err := ParseFilter(strings.Fields(words))
		if err != nil {
			t.Errorf("%q: %v", words, err)
			continue
		}
		var got []string
		for name, frame := range frames {
			if f.Match(frame, len(frame)) {
				got = append(got, name)
			}
		}
		if diff := cmp.Diff(strings.Fields(want), slices.Sorted(slices.Values(got)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", words, diff)
		}
	}
	for _, words := range []string{"and", "tcp and", "tcp udp", "tcp or udp", "host", "host x", "host 10.0.0.0/8", "port", "port 65536", "port -1", "port http", "nonsense", "and tcp"} {
		if _, err := ParseFilter(strings.Fields(words)); err == nil {
			t.Errorf("%q was taken", words)
		}
	}
}
