package engine

import (
	"fmt"
	"io"
	"strings"

	"vionet/mbuf"
	"vionet/port"
)

// tunnelFlags are DPDK's names for tunnels.
var tunnelFlags = map[tunnel]string{
	tunnelVXLAN:    "RTE_MBUF_F_TX_TUNNEL_VXLAN",
	tunnelVXLANGPE: "RTE_MBUF_F_TX_TUNNEL_VXLAN_GPE",
	tunnelGENEVE:   "RTE_MBUF_F_TX_TUNNEL_GENEVE",
	tunnelGTP:      "RTE_MBUF_F_TX_TUNNEL_GTP",
	tunnelGRE:      "RTE_MBUF_F_TX_TUNNEL_GRE",
	tunnelIPIP:     "RTE_MBUF_F_TX_TUNNEL_IPIP",
}

// checked describes what mode csum found in a packet that came with flags, and
// what it asks the Tx port for.
func (w *Watch) checked(s *Stream, b *mbuf.Buf, flags mbuf.Flags, l *layers) {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	in, out := &l.inner, &l.outer
	line("-----------------")
	line("port=%d, mbuf=%p, pkt_len=%d, nb_segs=%d:", s.RxPort, b, b.PacketLen(), b.Segments())
	line("rx: l2_len=%d ethertype=%x l3_len=%d l4_proto=%d l4_len=%d flags=%s", in.l2, in.etherType, in.l3, in.next, in.l4, eachSpaced(rxFlagNames(flags)))
	if flags&mbuf.RxLRO != 0 {
		line("rx: m->lro_segsz=%d", b.SegSize)
	}
	if l.tunnel != noTunnel {
		line("rx: outer_l2_len=%d outer_ethertype=%x outer_l3_len=%d", out.l2, out.etherType, out.l3)
	}
	if s.TxOffloads&(l4Offloads|port.TxIPv4Cksum|port.TxSCTPCksum) != 0 || s.TSOSize != 0 {
		line("tx: m->l2_len=%d m->l3_len=%d m->l4_len=%d", in.ip(), in.l3, in.l4)
	}
	if l.tunnel != noTunnel && out.ipv6 {
		// The Tx port is not told of outer headers.
		line("tx: m->outer_l2_len=0 m->outer_l3_len=0")
	}
	if b.Flags&mbuf.TxTSO != 0 {
		line("tx: m->tso_segsz=%d", b.SegSize)
	}
	line("tx: flags=%s", eachSpaced(append(txFlagNames(b.Flags|in.familyIfAny()), l.tunnelNames()...)))
	io.WriteString(w.Out, text.String())
}

// familyIfAny is the family of the IP header, or 0 where there is none.
func (h *headers) familyIfAny() mbuf.Flags {
	if h.l3 == 0 {
		return 0
	}
	return h.family()
}

// tunnelNames gives the names of the flags that a tunnel brings.
func (l *layers) tunnelNames() []string {
	if l.tunnel == noTunnel {
		return nil
	}
	outer := "RTE_MBUF_F_TX_OUTER_IPV4"
	if l.outer.ipv6 {
		outer = "RTE_MBUF_F_TX_OUTER_IPV6"
	}
	return []string{outer, tunnelFlags[l.tunnel]}
}
