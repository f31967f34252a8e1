package engine

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	pkt "github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"vionet/driver"
	"vionet/mbuf"
)

// flowFrame is a packet of a flow, with its number among all packets behind the
// headers.
func flowFrame(t testing.TB, flow, serial int) []byte {
	ip := ipv4(pkt.IPProtocolUDP)
	h := &pkt.UDP{SrcPort: pkt.UDPPort(flow), DstPort: 9}
	h.SetNetworkLayerForChecksum(ip)
	return packet(t, ether(pkt.EthernetTypeIPv4), ip, h, gopacket.Payload(binary.BigEndian.AppendUint32(nil, uint32(serial))))
}

// flowOf reads flow and number back.
func flowOf(frame []byte) (flow, serial int) {
	return int(binary.BigEndian.Uint16(frame[34:])), int(binary.BigEndian.Uint32(frame[42:]))
}

// splitter is a sink that knows which packets came in one burst.
type splitter struct {
	sink
	bursts [][]int // the numbers of the packets
}

func (q *splitter) Burst(bufs []*mbuf.Buf) int {
	var burst []int
	for _, b := range bufs {
		_, serial := flowOf(b.Bytes())
		burst = append(burst, serial)
	}
	q.bursts = append(q.bursts, burst)
	return q.sink.Burst(bufs)
}

func TestFlowBatchSendsABurstForEachFlow(t *testing.T) {
	for flows, want := range map[string][][]int{
		"a":            {{0}},
		"aaaa":         {{0, 1, 2, 3}},
		"abcd":         {{0}, {1}, {2}, {3}},
		"abab":         {{0, 2}, {1, 3}},
		"abcabbca":     {{0, 3, 7}, {1, 4, 5}, {2, 6}},
		"aaaaaaaaabbb": {{0, 1, 2, 3, 4, 5, 6, 7}, {8}, {9, 10, 11}}, // of two received bursts
	} {
		var frames [][]byte
		for i, flow := range flows {
			frames = append(frames, flowFrame(t, int(flow), i))
		}
		r := newRig(t, StreamConfig{Burst: 8}, frames...)
		tx := &splitter{sink: sink{room: 1 << 30}}
		r.Stream.Tx = tx
		r.UseCache(r.cache)
		for FlowBatch.Forward(r.Stream) > 0 {
		}
		if diff := cmp.Diff(want, tx.bursts); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", flows, diff)
		}
		different := map[rune]bool{}
		for _, flow := range flows {
			different[flow] = true
		}
		if b, n := r.Batches.Load(), r.NewFlows.Load(); b != uint64(len(want)) || n != uint64(len(different)) {
			t.Errorf("%s: counted %d batches and %d new flows, want %d and %d", flows, b, n, len(want), len(different))
		}
		r.Reset()
		if b, n := r.Batches.Load(), r.NewFlows.Load(); b+n != 0 {
			t.Errorf("%s: %d batches and %d new flows after Reset", flows, b, n)
		}
		r.accounted(t)
	}
}

func TestFlowBatchFillsABuffer(t *testing.T) {
	var frames [][]byte
	for i := range 32 {
		frames = append(frames, flowFrame(t, i%16, i))
	}
	r := newRig(t, StreamConfig{}, frames...)
	tx := &splitter{sink: sink{room: 1 << 30}}
	r.Stream.Tx = tx
	if err := r.Buffer(driver.TxBufferConfig{Size: 32}); err != nil {
		t.Fatal(err)
	}
	r.UseCache(r.cache)
	FlowBatch.Forward(r.Stream)
	if len(tx.bursts) != 1 || len(tx.bursts[0]) != 32 || r.Batches.Load() != 16 {
		t.Errorf("%d batches left in %d bursts", r.Batches.Load(), len(tx.bursts))
	}
	r.accounted(t)
}

func TestFlowKeys(t *testing.T) {
	r := newRig(t, StreamConfig{})
	key := func(list ...gopacket.SerializableLayer) (k flowKey) {
		b := r.rx.packet(packet(t, list...))
		defer b.Free()
		k.set(b)
		return k
	}
	eth4, eth6 := ether(pkt.EthernetTypeIPv4), ether(pkt.EthernetTypeIPv6)
	udp4, udp6, tcp4, tcp6 := ipv4(pkt.IPProtocolUDP), ipv6(pkt.IPProtocolUDP), ipv4(pkt.IPProtocolTCP), ipv6(pkt.IPProtocolTCP)
	back, other := ipv4(pkt.IPProtocolUDP), ipv6(pkt.IPProtocolUDP)
	back.SrcIP, back.DstIP = back.DstIP, back.SrcIP
	other.SrcIP = slices.Concat(ip6A[:15], []byte{77})
	zero := ipv4(0)
	zero.SrcIP, zero.DstIP = make([]byte, 4), make([]byte, 4)
	like := ipv6(pkt.IPProtocolUDP) // the addresses of udp4, and zeros
	like.SrcIP, like.DstIP = slices.Concat(ip4A.To4(), ip4B.To4(), make([]byte, 8)), make([]byte, 16)
	sport := udp(udp4, 53)
	sport.SrcPort++
	tagged := func(id uint16) []gopacket.SerializableLayer {
		return []gopacket.SerializableLayer{ether(pkt.EthernetTypeDot1Q), &pkt.Dot1Q{VLANIdentifier: id, Type: pkt.EthernetTypeIPv4}, udp4, udp(udp4, 53), text(9)}
	}
	fragment := func(offset uint16, more bool) []gopacket.SerializableLayer {
		ip := ipv4(pkt.IPProtocolUDP)
		ip.FragOffset = offset
		if more {
			ip.Flags = pkt.IPv4MoreFragments
		}
		return []gopacket.SerializableLayer{eth4, ip, udp(ip, 53), text(32)}
	}
	plain := key(eth4, udp4, udp(udp4, 53), text(9))
	keys := map[string]flowKey{
		"UDP":                plain,
		"UDP to a port":      key(eth4, udp4, udp(udp4, 54), text(9)),
		"UDP from a port":    key(eth4, udp4, sport, text(9)),
		"UDP back":           key(eth4, back, udp(back, 53), text(9)),
		"TCP":                key(eth4, tcp4, tcp(tcp4), text(9)),
		"UDP over IPv6":      key(eth6, udp6, udp(udp6, 53), text(9)),
		"UDP from elsewhere": key(eth6, other, udp(other, 53), text(9)),
		"TCP over IPv6":      key(eth6, tcp6, tcp(tcp6), text(9)),
		"ICMP":               key(eth4, ipv4(pkt.IPProtocolICMPv4), &pkt.ICMPv4{TypeCode: pkt.CreateICMPv4TypeCode(8, 0)}, text(9)),
		"fragment":           key(fragment(0, true)...),
		"not IP":             key(ether(pkt.EthernetTypeARP), text(28)),
		"all zero":           key(eth4, zero, text(9)),
		"IPv6 like IPv4":     key(eth6, like, udp(like, 53), text(9)),
	}
	for a, k := range keys {
		for b, other := range keys {
			if a != b && k == other {
				t.Errorf("%s and %s are one flow", a, b)
			}
		}
	}
	for name, pair := range map[string][2]flowKey{
		"another length":     {plain, key(eth4, udp4, udp(udp4, 53), text(900))},
		"a VLAN tag":         {plain, key(tagged(5)...)},
		"another tag":        {plain, key(tagged(6)...)},
		"a later fragment":   {keys["fragment"], key(fragment(4, true)...)},
		"the last fragment":  {keys["fragment"], key(fragment(8, false)...)},
		"another kind of L3": {keys["not IP"], key(ether(pkt.EthernetTypeLinkLayerDiscovery), text(50))},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s makes another flow", name)
		}
	}
}

// rivals gives flows of flowFrame that want the same places of the table, one more
// than there are.
func rivals(o *sorter) (set []int) {
	sets := map[uint64][]int{}
	for flow := 1; len(set) <= flowWays; flow++ {
		o.flows.key = flowKey{}
		copy(o.flows.key[:], slices.Concat(ip4A, ip4B))
		binary.BigEndian.PutUint16(o.flows.key[keyPorts:], uint16(flow))
		o.flows.key[keyPorts+3], o.flows.key[keyNext], o.flows.key[keyFamily] = 9, protoUDP, 4
		at := maphash.Bytes(o.flows.seed, o.flows.key[:]) % (flowEntries / flowWays)
		sets[at] = append(sets[at], flow)
		set = sets[at]
	}
	return set
}

// Flows that want the same places of the table push one another out, within a
// burst too, and no packet is lost or overtaken.
func TestFlowBatchWithCollisions(t *testing.T) {
	o := newSorter(16)
	set := rivals(o)
	r := newRig(t, StreamConfig{})
	var pkts []*mbuf.Buf
	for serial, flow := range []int{set[0], set[1], set[0], set[2], set[0], set[2]} {
		pkts = append(pkts, r.rx.packet(flowFrame(t, flow, serial)))
	}
	sorted, batches, added := o.sort(pkts)
	var got []int
	for _, b := range sorted {
		_, serial := flowOf(b.Bytes())
		got = append(got, serial)
	}
	// The third flow takes the place of the first, whose next packet then takes
	// that of the third.
	if want := []int{0, 2, 1, 3, 4, 5}; !slices.Equal(got, want) || !slices.Equal(batches, []int{2, 1, 1, 1, 1}) || added != 5 {
		t.Errorf("order %v in batches of %v, %d new; want %v in 2 1 1 1 1, 5 new", got, batches, added, want)
	}
	r.cache.Put(pkts)
	r.accounted(t)
}

// sortFrames sorts a burst of frames and gives their places in it, batch by batch,
// and the number of new flows.
func (r *rig) sortFrames(o *sorter, frames ...[]byte) (batches [][]int, added int) {
	var pkts []*mbuf.Buf
	at := map[*mbuf.Buf]int{}
	for i, frame := range frames {
		pkts = append(pkts, r.rx.packet(frame))
		at[pkts[i]] = i
	}
	sorted, counts, added := o.sort(pkts)
	for _, n := range counts {
		var batch []int
		for _, p := range sorted[:n] {
			batch = append(batch, at[p])
		}
		batches, sorted = append(batches, batch), sorted[n:]
	}
	r.cache.Put(pkts)
	return batches, added
}

// Packets of all kinds in one burst: nothing of a key is left in the next one, and
// what is not IP is a new flow too when it comes first.
func TestFlowBatchOfAllKinds(t *testing.T) {
	r := newRig(t, StreamConfig{})
	udp4, udp6 := ipv4(pkt.IPProtocolUDP), ipv6(pkt.IPProtocolUDP)
	four := packet(t, ether(pkt.EthernetTypeIPv4), udp4, udp(udp4, 53), text(9))
	six := packet(t, ether(pkt.EthernetTypeIPv6), udp6, udp(udp6, 53), text(9))
	arp := packet(t, ether(pkt.EthernetTypeARP), text(28))
	o := newSorter(8)
	if got, added := r.sortFrames(o, arp, six, four, arp, six, four); added != 3 || !cmp.Equal(got, [][]int{{0, 3}, {1, 4}, {2, 5}}) {
		t.Errorf("%v, %d new", got, added)
	}
	if got, added := r.sortFrames(o, four, six, arp); added != 0 || len(got) != 3 {
		t.Errorf("the second time %v, %d new", got, added)
	}
	r.accounted(t)
}

// The flow that was not seen for longest gives way.
func TestFlowTableKeepsFlowsInUse(t *testing.T) {
	r := newRig(t, StreamConfig{})
	o := newSorter(8)
	set := rivals(o)
	a, b, c := flowFrame(t, set[0], 0), flowFrame(t, set[1], 0), flowFrame(t, set[2], 0)
	for i, step := range []struct {
		frames [][]byte
		added  int
	}{
		{[][]byte{a, b}, 2}, {[][]byte{a}, 0},
		{[][]byte{c}, 1}, // in the place of b
		{[][]byte{a, c}, 0},
		{[][]byte{c}, 0}, {[][]byte{b}, 1}, // in the place of a
		{[][]byte{c, b}, 0},
	} {
		if _, added := r.sortFrames(o, step.frames...); added != step.added {
			t.Errorf("step %d: %d new flows, want %d", i, added, step.added)
		}
	}
	r.accounted(t)
}

// With more flows than the table holds, each packet comes out once, and each
// flow in order.
func TestFlowBatchKeepsOrderWithAnyFlows(t *testing.T) {
	r := newRig(t, StreamConfig{Burst: 256})
	frame := flowFrame(t, 0, 0)
	var pkts [256]*mbuf.Buf
	rapid.Check(t, func(t *rapid.T) {
		o := newSorter(len(pkts))
		spread := rapid.SampledFrom([]int{1, 2, 50, 5000, 65536}).Draw(t, "flows")
		serial := 0
		for range rapid.IntRange(1, 30).Draw(t, "bursts") {
			burst := pkts[:r.cache.Get(pkts[:rapid.IntRange(1, len(pkts)).Draw(t, "packets")])]
			seed := rapid.Uint64().Draw(t, "seed") | 1
			d := dice(seed)
			for _, b := range burst {
				b.Reset()
				copy(b.Append(len(frame)), frame)
				binary.BigEndian.PutUint16(b.Bytes()[34:], uint16(d.roll(uint64(spread))))
				binary.BigEndian.PutUint32(b.Bytes()[42:], uint32(serial))
				serial++
			}
			first := serial - len(burst)
			sorted, batches, _ := o.sort(burst)
			last, seen, rest := map[int]int{}, map[int]bool{}, sorted
			for _, n := range batches {
				flow, _ := flowOf(rest[0].Bytes())
				for _, b := range rest[:n] {
					f, s := flowOf(b.Bytes())
					if before, ok := last[f]; f != flow || ok && s < before || s < first || seen[s] {
						t.Fatalf("packet %d of flow %d is wrong here", s, f)
					}
					last[f], seen[s] = s, true
				}
				rest = rest[n:]
			}
			if len(rest) > 0 || len(seen) != len(burst) {
				t.Fatalf("%d of %d packets came out", len(seen), len(burst))
			}
			r.cache.Put(burst)
		}
	})
	r.accounted(t)
}
