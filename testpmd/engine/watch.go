package engine

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"vionet/mbuf"
)

// Watch describes packets as they pass, for people who want to see them. Its
// level says which: 1 those received, 2 those sent, more both, 0 none.
type Watch struct {
	Out   io.Writer
	level atomic.Int64
}

// SetLevel changes the level, also while packets pass.
func (w *Watch) SetLevel(level int) { w.level.Store(int64(level)) }

// Level is the level set last.
func (w *Watch) Level() int { return int(w.level.Load()) }

// received describes pkts, if that is wanted.
func (w *Watch) received(port, queue int, pkts []*mbuf.Buf) {
	if level := w.level.Load(); level != 0 && level != 2 && len(pkts) > 0 {
		w.describe(port, queue, "received", "Receive", rxFlagNames, pkts)
	}
}

// sending describes pkts, if that is wanted.
func (w *Watch) sending(port, queue int, pkts []*mbuf.Buf) {
	if level := w.level.Load(); level > 1 {
		w.describe(port, queue, "sent", "Send", txFlagNames, pkts)
	}
}

func (w *Watch) describe(port, queue int, done, dir string, flags func(mbuf.Flags) []string, pkts []*mbuf.Buf) {
	var text strings.Builder
	fmt.Fprintf(&text, "port %d/queue %d: %s %d packets\n", port, queue, done, len(pkts))
	for _, b := range pkts {
		describePacket(&text, b)
		fmt.Fprintf(&text, " - %s queue=0x%x\n  ol_flags: %s\n", dir, queue, eachSpaced(flags(b.Flags)))
	}
	io.WriteString(w.Out, text.String())
}

// describePacket writes what the packet's own bytes say.
func describePacket(text *strings.Builder, b *mbuf.Buf) {
	frame := b.Bytes()
	if len(frame) < etherLen {
		fmt.Fprintf(text, "  pool=%s - length=%d - nb_segs=%d - hw ptype: UNKNOWN  - sw ptype: UNKNOWN ", b.Pool().Name(), b.PacketLen(), b.Segments())
		return
	}
	mac := func(b []byte) string { return strings.ToUpper(net.HardwareAddr(b).String()) }
	h, isIP := parse(frame, b.PacketLen())
	l := layers{inner: h}
	if isIP && h.proto == protoNone { // tunnels over UDP count as UDP
		l.enter(frame, TunnelPorts{})
	}
	if l.tunnel != noTunnel {
		h = l.outer
	}
	types := eachSpaced(l.types(frame, isIP))
	fmt.Fprintf(text, "  src=%s - dst=%s - pool=%s - type=0x%04x - length=%d - nb_segs=%d", mac(frame[6:12]), mac(frame[0:6]), b.Pool().Name(), binary.BigEndian.Uint16(frame[12:]), b.PacketLen(), b.Segments())
	if b.Flags&mbuf.RxHash != 0 {
		fmt.Fprintf(text, " - RSS hash=0x%x", b.Hash)
	}
	if b.Flags&mbuf.RxVLANStripped != 0 {
		fmt.Fprintf(text, " - VLAN tci=0x%x", b.VLAN)
	}
	fmt.Fprintf(text, " - hw ptype: %s - sw ptype: %s - l2_len=%d", types, types, h.l2)
	if !isIP {
		return
	}
	fmt.Fprintf(text, " - l3_len=%d", h.l3)
	if l.tunnel == noTunnel {
		h.writeL4(text, "l4_len")
		return
	}
	fmt.Fprintf(text, " - tunnel_len=%d", l.inner.head)
	if l2 := l.inner.l2 - l.inner.head; l2 > 0 {
		fmt.Fprintf(text, " - inner_l2_len=%d", l2)
	}
	fmt.Fprintf(text, " - inner_l3_len=%d", l.inner.l3)
	l.inner.writeL4(text, "inner_l4_len")
}

// writeL4 writes the length of the L4 header of a packet that has one or is a
// fragment, which has none.
func (h *headers) writeL4(text *strings.Builder, name string) {
	length := h.l4
	if h.proto == protoSCTP {
		length = sctpLen
	}
	if h.proto != protoNone || h.fragment {
		fmt.Fprintf(text, " - %s=%d", name, length)
	}
}

// types names the kinds of headers of the frame.
func (l *layers) types(frame []byte, isIP bool) []string {
	names := []string{"L2_ETHER"}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherVLAN:
		names[0] = "L2_ETHER_VLAN"
	case etherQinQ:
		names[0] = "L2_ETHER_QINQ"
	}
	switch {
	case !isIP:
		return names
	case l.tunnel == noTunnel:
		return append(names, l.inner.types("")...)
	}
	names = append(names, l.outer.types("")...)
	l2 := l.inner.l2 - l.inner.head
	switch {
	case l.tunnel == tunnelIPIP:
		names = append(names, "TUNNEL_IP")
	case l2 > 0:
		names = append(names, "TUNNEL_NVGRE")
	default:
		names = append(names, "TUNNEL_GRE")
	}
	if l2 > etherLen {
		names = append(names, "INNER_L2_ETHER_VLAN")
	} else if l2 > 0 {
		names = append(names, "INNER_L2_ETHER")
	}
	return append(names, l.inner.types("INNER_")...)
}

// types names the IP header and what is behind it.
func (h *headers) types(prefix string) []string {
	var names []string
	switch {
	case h.ipv6 && h.l3 > ipv6Len:
		names = append(names, prefix+"L3_IPV6_EXT")
	case h.ipv6:
		names = append(names, prefix+"L3_IPV6")
	case h.l3 > ipv4Len:
		names = append(names, prefix+"L3_IPV4_EXT")
	default:
		names = append(names, prefix+"L3_IPV4")
	}
	switch {
	case h.fragment:
		names = append(names, prefix+"L4_FRAG")
	case h.proto == protoTCP:
		names = append(names, prefix+"L4_TCP")
	case h.proto == protoUDP:
		names = append(names, prefix+"L4_UDP")
	case h.proto == protoSCTP:
		names = append(names, prefix+"L4_SCTP")
	}
	return names
}

// rxFlagNames gives DPDK's names for what a port found out.
func rxFlagNames(f mbuf.Flags) []string {
	var names []string
	if f&mbuf.RxVLANStripped != 0 {
		names = append(names, "RTE_MBUF_F_RX_VLAN")
	}
	if f&mbuf.RxHash != 0 {
		names = append(names, "RTE_MBUF_F_RX_RSS_HASH")
	}
	switch {
	case f&mbuf.RxL4Bad != 0:
		names = append(names, "RTE_MBUF_F_RX_L4_CKSUM_BAD")
	case f&mbuf.RxL4Good != 0:
		names = append(names, "RTE_MBUF_F_RX_L4_CKSUM_GOOD")
	case f&mbuf.RxL4None != 0:
		names = append(names, "RTE_MBUF_F_RX_L4_CKSUM_NONE")
	default:
		names = append(names, "RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN")
	}
	if f&mbuf.RxIPBad != 0 {
		names = append(names, "RTE_MBUF_F_RX_IP_CKSUM_BAD")
	} else {
		names = append(names, "RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN")
	}
	if f&mbuf.RxVLANStripped != 0 {
		names = append(names, "RTE_MBUF_F_RX_VLAN_STRIPPED")
	}
	if f&mbuf.RxLRO != 0 {
		names = append(names, "RTE_MBUF_F_RX_LRO")
	}
	return append(names, "RTE_MBUF_F_RX_OUTER_L4_CKSUM_UNKNOWN")
}

// txFlagNames gives DPDK's names for what a port is asked for.
func txFlagNames(f mbuf.Flags) []string {
	var names []string
	add := func(flag mbuf.Flags, name string) {
		if f&flag != 0 {
			names = append(names, name)
		}
	}
	add(mbuf.TxVLAN, "RTE_MBUF_F_TX_VLAN")
	if f&mbuf.TxTSO != 0 {
		// The header checksum comes with the segmentation.
		add(mbuf.TxIPv4, "RTE_MBUF_F_TX_IP_CKSUM")
	}
	add(mbuf.TxTCPChecksum, "RTE_MBUF_F_TX_TCP_CKSUM")
	add(mbuf.TxUDPChecksum, "RTE_MBUF_F_TX_UDP_CKSUM")
	if f&(mbuf.TxTCPChecksum|mbuf.TxUDPChecksum) == 0 {
		names = append(names, "RTE_MBUF_F_TX_L4_NO_CKSUM")
	}
	add(mbuf.TxTSO, "RTE_MBUF_F_TX_TCP_SEG")
	add(mbuf.TxIPv4, "RTE_MBUF_F_TX_IPV4")
	add(mbuf.TxIPv6, "RTE_MBUF_F_TX_IPV6")
	return names
}

// eachSpaced sets a space behind every word.
func eachSpaced(words []string) string {
	var text strings.Builder
	for _, w := range words {
		text.WriteString(w + " ")
	}
	return text.String()
}
