package engine

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	pkt "github.com/gopacket/gopacket/layers"

	"vionet/mbuf"
	"vionet/offload"
)

func TestFlowGen(t *testing.T) {
	// 46 bytes of IPv4 from 10.254.0.0 to 10.253.0.0: 4500+002e+4011+0afe+0afd
	// = 9b3a, complement 64c5.
	first := unhex(t, `000102030401 000102030400 0800
		4500 002e 0000 0000 4011 64c5 0afe0000 0afd0000
		03e8 03e9 001a 0000`)
	for _, tt := range []struct{ flows, clones, different int }{{0, 0, 1024}, {1, 0, 1}, {100, 0, 100}, {100, 3, 25}} {
		r := newRig(t, StreamConfig{Flows: tt.flows, Clones: tt.clones}, tcpFrame(t, 10))
		seen := map[uint32]int{}
		packets := 0
		for range 64 {
			packets += FlowGen.Forward(r.Stream)
		}
		if packets != 64*32+1 {
			t.Errorf("%+v: %d packets in hands", tt, packets)
		}
		for i, p := range r.tx.sent {
			if len(p.Bytes) != 60 || offload.Checksum(p.Bytes[14:34]) != 0 {
				t.Fatalf("%+v, packet %d: %x", tt, i, p.Bytes)
			}
			seen[binary.BigEndian.Uint32(p.Bytes[30:])-0x0afd0000]++
			copy(p.Bytes[24:26], first[24:26])
			copy(p.Bytes[30:34], first[30:34])
			if i == 0 && offload.Checksum(first[14:34]) != 0 || !bytes.Equal(p.Bytes[:42], first) {
				t.Fatalf("%+v, packet %d: %x", tt, i, p.Bytes)
			}
		}
		if len(seen) != tt.different {
			t.Errorf("%+v: %d flows, want %d", tt, len(seen), tt.different)
		}
		r.accounted(t)
	}
}

func TestFlowGenKeepsToTheBuffer(t *testing.T) {
	r := newRig(t, StreamConfig{TxSegs: []int{2000, 2000}})
	FlowGen.Forward(r.Stream)
	if got := r.tx.sent[0]; len(got.Bytes) != mbuf.DefaultSize-mbuf.Headroom || got.Segments != 1 {
		t.Errorf("%d bytes in %d segments", len(got.Bytes), got.Segments)
	}
	r.accounted(t)
}

func TestTxOnlyFlowsAndAddresses(t *testing.T) {
	r := newRig(t, StreamConfig{MultiFlow: true, TxQueue: 2, Burst: 256, TxAddrs: [2][4]byte{{1, 2, 3, 4}, {5, 6, 7, 8}}, TxPorts: [2]uint16{7, 8}})
	TxOnly.Forward(r.Stream)
	seen := map[string]bool{}
	for _, p := range r.tx.sent {
		seen[string(p.Bytes[26:30])] = true
		if offload.Checksum(p.Bytes[14:34]) != 0 || !bytes.Equal(p.Bytes[30:38], []byte{5, 6, 7, 8, 0, 7, 0, 8}) || p.Bytes[26] != 5 || p.Bytes[29] != 8+3 {
			t.Fatalf("%x", p.Bytes)
		}
	}
	// The third byte of the source takes the bits of 7 in any case.
	if len(seen) != 32 {
		t.Errorf("%d flows, want 32", len(seen))
	}
	usual := newRig(t, StreamConfig{MultiFlow: true, Burst: 256, TxSegs: []int{20, 44}})
	TxOnly.Forward(usual.Stream)
	clear(seen)
	for _, p := range usual.tx.sent {
		seen[string(p.Bytes[26:30])] = true
	}
	if len(seen) < 200 {
		t.Errorf("%d flows, want one a packet", len(seen))
	}
}

func TestTxOnlySplitsAtRandom(t *testing.T) {
	segs := []int{20, 30, 40, 50}
	r := newRig(t, StreamConfig{TxSegs: segs, TxSplit: SplitRandom})
	seen := map[int]int{}
	for range 20 {
		TxOnly.Forward(r.Stream)
	}
	for _, p := range r.tx.sent {
		seen[p.Segments]++
		length := total(segs[:p.Segments])
		if len(p.Bytes) != length || int(binary.BigEndian.Uint16(p.Bytes[16:])) != length-14 ||
			int(binary.BigEndian.Uint16(p.Bytes[38:])) != length-34 || offload.Checksum(p.Bytes[14:34]) != 0 {
			t.Fatalf("%d segments: %x", p.Segments, p.Bytes)
		}
	}
	if len(seen) != 3 || seen[1] > 0 {
		t.Errorf("packets by segments: %v, want 2 to 4", seen)
	}
	r.accounted(t)
}

func TestCsumSplits(t *testing.T) {
	v4 := ipv4(pkt.IPProtocolTCP)
	frame := packet(t, ether(pkt.EthernetTypeIPv4), v4, tcp(v4), text(146)) // 200 bytes
	for _, tt := range []struct {
		mode SplitMode
		segs []int
		want []int // numbers of segments that may come out
	}{
		{SplitOff, []int{64, 64}, []int{1}},
		{SplitOn, []int{64}, []int{1}},
		{SplitOn, []int{64, 64}, []int{2}},
		{SplitOn, []int{64, 64, 64, 64, 64}, []int{4}},
		{SplitRandom, []int{64, 64, 64}, []int{1, 2, 3}},
	} {
		for _, segSize := range []int{0, 77} {
			r := newRig(t, StreamConfig{TxSplit: tt.mode, TxSegs: tt.segs, KeepMACs: true, TSOSize: 100}, slices.Repeat([][]byte{frame}, 32)...)
			r.rx.segSize = segSize
			Csum.Forward(r.Stream)
			for _, p := range r.tx.sent {
				if !bytes.Equal(p.Bytes, frame) || p.Flags != mbuf.TxTSO|mbuf.TxIPv4 || p.SegSize != 100 || p.L4 != 20 {
					t.Fatalf("%+v: %+v", tt, p)
				}
				if tt.mode != SplitOff && !slices.Contains(tt.want, p.Segments) {
					t.Errorf("%+v: %d segments", tt, p.Segments)
				}
			}
			r.accounted(t)
		}
	}
}

func TestFiveTupleSwap(t *testing.T) {
	for name, list := range map[string]func(swapped bool) []gopacket.SerializableLayer{
		"TCP": func(s bool) []gopacket.SerializableLayer {
			ip := ipv4(pkt.IPProtocolTCP)
			h := tcp(ip)
			if s {
				ip.SrcIP, ip.DstIP, h.SrcPort, h.DstPort = ip.DstIP, ip.SrcIP, h.DstPort, h.SrcPort
			}
			return []gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv4), ip, h, text(9)}
		},
		"UDP over IPv6 with VLAN tags": func(s bool) []gopacket.SerializableLayer {
			ip := ipv6(pkt.IPProtocolUDP)
			h := udp(ip, 99)
			if s {
				ip.SrcIP, ip.DstIP, h.SrcPort, h.DstPort = ip.DstIP, ip.SrcIP, h.DstPort, h.SrcPort
			}
			return []gopacket.SerializableLayer{ether(pkt.EthernetTypeQinQ), &pkt.Dot1Q{VLANIdentifier: 5, Type: pkt.EthernetTypeDot1Q},
				&pkt.Dot1Q{VLANIdentifier: 6, Type: pkt.EthernetTypeIPv6}, ip, h, text(9)}
		},
		"ICMP": func(s bool) []gopacket.SerializableLayer {
			ip := ipv4(pkt.IPProtocolICMPv4)
			if s {
				ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP
			}
			return []gopacket.SerializableLayer{ether(pkt.EthernetTypeIPv4), ip, text(20)}
		},
		"ARP": func(bool) []gopacket.SerializableLayer {
			return []gopacket.SerializableLayer{ether(pkt.EthernetTypeARP), text(28)}
		},
	} {
		in, want := packet(t, list(false)...), packet(t, list(true)...)
		copy(want[0:6], macA)
		copy(want[6:12], macB)
		r := newRig(t, StreamConfig{}, in)
		FiveTupleSwap.Forward(r.Stream)
		if got := r.tx.sent[0].Bytes; !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, want\n%x", name, got, want)
		}
	}
}

func numbered(n int) [][]byte {
	var list [][]byte
	for i := range n {
		list = append(list, []byte{byte(i), byte(i >> 8)})
	}
	return list
}

func numbers(list []sent) []int {
	var out []int
	for _, p := range list {
		out = append(out, int(binary.LittleEndian.Uint16(p.Bytes)))
	}
	return out
}

func TestNoisyHoldsAndKeepsOrder(t *testing.T) {
	for _, hold := range []int{0, 1, 7, 32, 100} {
		r := newRig(t, StreamConfig{Burst: 8, Noise: Noise{Hold: hold, Memory: 4096, Reads: 2, Writes: 1, ReadWrites: 1}}, numbered(200)...)
		for Noisy.Forward(r.Stream) > 0 {
		}
		got := numbers(r.tx.sent)
		if len(got) != 200-hold {
			t.Errorf("holding %d: %d of 200 came out", hold, len(got))
		}
		for i, n := range got {
			if n != i {
				t.Fatalf("holding %d: %d came as number %d", hold, n, i)
			}
		}
		r.Finish()
		if r.TxDropped.Load() != uint64(hold) {
			t.Errorf("holding %d: %d dropped at the end", hold, r.TxDropped.Load())
		}
		r.accounted(t)
	}
}

func TestNoisyFlushes(t *testing.T) {
	r := newRig(t, StreamConfig{Burst: 64, Noise: Noise{Hold: 100, Flush: time.Millisecond}}, numbered(50)...)
	if n := Noisy.Forward(r.Stream); n != 50 || len(r.tx.sent) != 0 {
		t.Errorf("%d in hands, %d sent", n, len(r.tx.sent))
	}
	for range 1000 {
		if Noisy.Forward(r.Stream) > 0 {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	if got := numbers(r.tx.sent); len(got) != 50 || got[49] != 49 {
		t.Errorf("sent %v", got)
	}
	r.accounted(t)
}

func TestBadChecksumsAreCounted(t *testing.T) {
	r := newRig(t, StreamConfig{})
	for _, flags := range []mbuf.Flags{mbuf.RxIPBad, mbuf.RxL4Bad | mbuf.RxIPBad, mbuf.RxL4Good} {
		r.Rx = &marked{script: script{frames: [][]byte{tcpFrame(t, 1)}}, flags: flags}
		r.UseCache(r.cache)
		Csum.Forward(r.Stream)
	}
	if ip, l4 := r.BadIPSum.Load(), r.BadL4Sum.Load(); ip != 2 || l4 != 1 {
		t.Errorf("%d bad IP and %d bad L4 checksums, want 2 and 1", ip, l4)
	}
	r.Reset()
	if r.BadIPSum.Load()+r.BadL4Sum.Load() != 0 {
		t.Error("Reset leaves them")
	}
}

// marked sets flags of what it delivers.
type marked struct {
	script
	flags mbuf.Flags
}

func (q *marked) Burst(bufs []*mbuf.Buf) int {
	n := q.script.Burst(bufs)
	for _, b := range bufs[:n] {
		b.Flags = q.flags
	}
	return n
}

func TestSCTPChecksum(t *testing.T) {
	// CRC32c of "123456789" is e3069283 (RFC 3720, appendix B.4, and every
	// catalogue of CRCs); an SCTP packet has it with the lowest byte first.
	r := newRig(t, StreamConfig{})
	b := r.pool.Get()
	copy(b.Append(9), "123456789")
	if got := crc32c(b, 0, 9); got != 0xe3069283 {
		t.Errorf("%08x", got)
	}
	b.Free()
	ip := ipv4(pkt.IPProtocolSCTP)
	want := packet(t, ether(pkt.EthernetTypeIPv4), ip, &pkt.SCTP{SrcPort: 1, DstPort: 2, VerificationTag: 3}, text(33))
	bad := bytes.Clone(want)
	bad[34+8] ^= 0xff
	for _, segSize := range []int{0, 50} {
		r := newRig(t, StreamConfig{KeepMACs: true}, bad)
		r.rx.segSize = segSize
		Csum.Forward(r.Stream)
		if got := r.tx.sent[0].Bytes; !bytes.Equal(got, want) {
			t.Errorf("segments of %d:\n%x, want\n%x", segSize, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	var names []string
	for _, e := range All {
		names = append(names, e.Name)
		if ByName(e.Name) != e || e.Alias != "" && ByName(e.Alias) != e {
			t.Errorf("%s is not found by its names", e.Name)
		}
	}
	want := []string{"io", "mac", "macswap", "flowgen", "rxonly", "txonly", "csum", "icmpecho", "noisy", "5tswap", "shared-rxq", "recycle_mbufs", "flowbatch"}
	if diff := cmp.Diff(want, names); diff != "" || ByName("") != nil || ByName("shared_rxq") != SharedRxq {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
