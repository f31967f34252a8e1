package engine

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/mbuf"
	"vionet/port"
)

func TestWatchDescribesPackets(t *testing.T) {
	var out strings.Builder
	w := &Watch{Out: &out}
	c := l4Case{udp: true, payload: 12, ipv6: true, ext: true, tags: 1}
	udp, _, _ := c.build()
	options, _, _ := l4Case{payload: 1, options: 4}.build()
	r := newRig(t, StreamConfig{RxPort: 2, RxQueue: 1, Watch: w, KeepMACs: true, TxOffloads: port.TxTCPCksum},
		tcpFrame(t, 100), udp, options, []byte{1, 2, 3})
	r.rx.segSize = 120
	w.SetLevel(1)
	Csum.Forward(r.Stream)
	// Mode csum adds what it found, see TestCsumTells.
	const unknown = "RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN RTE_MBUF_F_RX_OUTER_L4_CKSUM_UNKNOWN "
	want := `port 2/queue 1: received 4 packets
  src=0A:00:00:00:00:02 - dst=0A:00:00:00:00:01 - pool=mb_pool_0 - type=0x0800 - length=154 - nb_segs=2 - hw ptype: L2_ETHER L3_IPV4 L4_TCP  - sw ptype: L2_ETHER L3_IPV4 L4_TCP  - l2_len=14 - l3_len=20 - l4_len=20 - Receive queue=0x1
  ol_flags: ` + unknown + `
  src=0A:00:00:00:00:02 - dst=0A:00:00:00:00:01 - pool=mb_pool_0 - type=0x8100 - length=86 - nb_segs=1 - hw ptype: L2_ETHER_VLAN L3_IPV6_EXT L4_UDP  - sw ptype: L2_ETHER_VLAN L3_IPV6_EXT L4_UDP  - l2_len=18 - l3_len=48 - l4_len=8 - Receive queue=0x1
  ol_flags: ` + unknown + `
  src=0A:00:00:00:00:02 - dst=0A:00:00:00:00:01 - pool=mb_pool_0 - type=0x0800 - length=59 - nb_segs=1 - hw ptype: L2_ETHER L3_IPV4_EXT L4_TCP  - sw ptype: L2_ETHER L3_IPV4_EXT L4_TCP  - l2_len=14 - l3_len=24 - l4_len=20 - Receive queue=0x1
  ol_flags: ` + unknown + `
  pool=mb_pool_0 - length=3 - nb_segs=1 - hw ptype: UNKNOWN  - sw ptype: UNKNOWN  - Receive queue=0x1
  ol_flags: ` + unknown + `
`
	if diff := cmp.Diff(want, withoutBlocks(out.String())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	out.Reset()
	w.SetLevel(2)
	r.rx.frames = [][]byte{tcpFrame(t, 0)}
	Csum.Forward(r.Stream)
	want = `port 0/queue 0: sent 1 packets
  src=0A:00:00:00:00:02 - dst=0A:00:00:00:00:01 - pool=mb_pool_0 - type=0x0800 - length=54 - nb_segs=1 - hw ptype: L2_ETHER L3_IPV4 L4_TCP  - sw ptype: L2_ETHER L3_IPV4 L4_TCP  - l2_len=14 - l3_len=20 - l4_len=20 - Send queue=0x0
  ol_flags: RTE_MBUF_F_TX_TCP_CKSUM RTE_MBUF_F_TX_IPV4 
`
	if diff := cmp.Diff(want, withoutBlocks(out.String())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	r.accounted(t)
}

// csumBlock is what mode csum says about a packet.
var csumBlock = regexp.MustCompile(`(?s)-{17}\nport=.*?\ntx: flags=[^\n]*\n`)

func withoutBlocks(text string) string { return csumBlock.ReplaceAllString(text, "") }

func TestWatchLevels(t *testing.T) {
	for level, want := range []string{"", "received", "sent", "received sent"} {
		var out strings.Builder
		w := &Watch{Out: &out}
		r := newRig(t, StreamConfig{Watch: w}, make([]byte, 60))
		w.SetLevel(level)
		IO.Forward(r.Stream)
		IO.Forward(r.Stream) // nothing is there any more
		var seen []string
		for _, word := range []string{"received", "sent"} {
			if n := strings.Count(out.String(), word); n == 1 {
				seen = append(seen, word)
			}
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("level %d: %q, want %q", level, got, want)
		}
	}
}

func TestFlagNames(t *testing.T) {
	for _, tt := range []struct {
		names func(mbuf.Flags) []string
		flags mbuf.Flags
		want  string
	}{
		{rxFlagNames, mbuf.RxL4Good | mbuf.RxLRO, "RTE_MBUF_F_RX_L4_CKSUM_GOOD RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN RTE_MBUF_F_RX_LRO RTE_MBUF_F_RX_OUTER_L4_CKSUM_UNKNOWN "},
		{rxFlagNames, mbuf.RxL4None | mbuf.RxVLANStripped, "RTE_MBUF_F_RX_VLAN RTE_MBUF_F_RX_L4_CKSUM_NONE RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN RTE_MBUF_F_RX_VLAN_STRIPPED RTE_MBUF_F_RX_OUTER_L4_CKSUM_UNKNOWN "},
		{txFlagNames, 0, "RTE_MBUF_F_TX_L4_NO_CKSUM "},
		{txFlagNames, mbuf.TxTSO | mbuf.TxIPv6, "RTE_MBUF_F_TX_L4_NO_CKSUM RTE_MBUF_F_TX_TCP_SEG RTE_MBUF_F_TX_IPV6 "},
		{txFlagNames, mbuf.TxVLAN | mbuf.TxUDPChecksum | mbuf.TxIPv4, "RTE_MBUF_F_TX_VLAN RTE_MBUF_F_TX_UDP_CKSUM RTE_MBUF_F_TX_IPV4 "},
	} {
		if got := eachSpaced(tt.names(tt.flags)); got != tt.want {
			t.Errorf("%#x: %q, want %q", tt.flags, got, tt.want)
		}
	}
}
