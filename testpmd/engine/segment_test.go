package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"vionet/mbuf"
	"vionet/port"
)

// merged is a receive queue of packets that stand for several, each with size
// bytes of payload.
type merged struct {
	script
	flags mbuf.Flags
	size  int
}

func (q *merged) Burst(bufs []*mbuf.Buf) int {
	n := q.script.Burst(bufs)
	for _, b := range bufs[:n] {
		b.Flags, b.SegSize, b.CSumStart = mbuf.RxLRO|q.flags, uint16(q.size), 0
	}
	return n
}

// newMergedRig is a rig that receives frame as segments of size bytes put
// together.
func newMergedRig(t testing.TB, cfg StreamConfig, flags mbuf.Flags, size int, frames ...[]byte) *rig {
	r := newRig(t, cfg)
	r.Rx = &merged{script: script{frames: frames, segSize: 700}, flags: flags, size: size}
	r.UseCache(r.cache)
	return r
}

var settlingModes = []*Engine{IO, MAC, MACSwap, FiveTupleSwap, Noisy, Csum, RecycleMbufs}

var mergedCases = []l4Case{
	{payload: 1000}, {payload: 900, tags: 1, options: 8}, {payload: 1000, ipv6: true}, {payload: 301, ipv6: true, tags: 2},
	{payload: 1000, udp: true}, {payload: 1000, udp: true, ipv6: true, tags: 1}, {payload: 200}, {payload: 0},
}

// A large packet leaves as the segments that it stands for when the Tx port
// does not segment, whatever the mode.
func TestLargePacketsAreCut(t *testing.T) {
	const size = 300
	for _, c := range mergedCases {
		frame, l2, l3 := c.build()
		headers := len(frame) - c.payload
		for _, mode := range settlingModes {
			for _, offloads := range []port.TxOffloads{0, port.TxTCPCksum | port.TxUDPCksum} {
				for _, flags := range []mbuf.Flags{mbuf.RxL4None, mbuf.RxL4Good, 0} {
					r := newMergedRig(t, StreamConfig{TxOffloads: offloads}, flags, size, frame)
					if mode.Forward(r.Stream) == 0 {
						t.Fatalf("%+v, %s: nothing to do", c, mode.Name)
					}
					want := max((c.payload+size-1)/size, 1)
					if len(r.tx.sent) != want || r.TxPackets.Load() != uint64(want) || r.TxDropped.Load() != 0 {
						t.Fatalf("%+v, %s: %d packets, %d counted, want %d", c, mode.Name, len(r.tx.sent), r.TxPackets.Load(), want)
					}
					var payload []byte
					for i, got := range r.tx.sent {
						payload = append(payload, got.Bytes[headers:]...)
						asked := got.Flags & (mbuf.TxTCPChecksum | mbuf.TxUDPChecksum)
						if (asked != 0) != (offloads != 0) || got.Flags&(mbuf.TxTSO|mbuf.TxUSO) != 0 {
							t.Errorf("%+v, %s, packet %d: flags %#x", c, mode.Name, i, got.Flags)
						}
						if asked != 0 && (int(got.L2) != l2 || int(got.L3) != l3) {
							t.Errorf("%+v, %s, packet %d: L3 at %d, L4 %d behind it", c, mode.Name, i, got.L2, got.L3)
						}
						if asked == 0 && c.verify(got.Bytes, l2, l3) != 0 {
							t.Errorf("%+v, %s, packet %d: wrong L4 checksum", c, mode.Name, i)
						}
						if ip := got.Bytes[l2:]; !c.ipv6 && (slowSum(ip[:l3]) != 0 || int(binary.BigEndian.Uint16(ip[4:])) != i) {
							t.Errorf("%+v, %s, packet %d: IP header %x", c, mode.Name, i, ip[:l3])
						}
					}
					if !bytes.Equal(payload, frame[headers:]) {
						t.Errorf("%+v, %s: payload %x, want %x", c, mode.Name, payload, frame[headers:])
					}
					r.accounted(t)
				}
			}
		}
	}
}

// A Tx port that segments gets the packet whole, with the request.
func TestLargePacketsStayWhole(t *testing.T) {
	const size = 300
	for _, c := range mergedCases {
		frame, l2, l3 := c.build()
		want, l4 := mbuf.TxTSO, uint16(20)
		if c.udp {
			want, l4 = mbuf.TxUSO, 8
		}
		if c.ipv6 {
			want |= mbuf.TxIPv6
		} else {
			want |= mbuf.TxIPv4
		}
		for _, mode := range settlingModes {
			r := newMergedRig(t, StreamConfig{TxOffloads: port.TxTCPTSO | port.TxUDPTSO | l4Offloads}, mbuf.RxL4None, size, frame)
			mode.Forward(r.Stream)
			got := r.tx.sent[0]
			if len(r.tx.sent) != 1 || got.Flags != want || got.SegSize != size || int(got.L2) != l2 || int(got.L3) != l3 || got.L4 != l4 || len(got.Bytes) != len(frame) {
				t.Errorf("%+v, %s: %d packets, %+v, want flags %#x", c, mode.Name, len(r.tx.sent), got, want)
			}
			r.accounted(t)
		}
	}
}

// "tso set" of mode csum has the last word on the size.
func TestCsumSegmentsAsTold(t *testing.T) {
	frame, _, _ := l4Case{payload: 1000}.build()
	r := newMergedRig(t, StreamConfig{TxOffloads: port.TxTCPTSO, TSOSize: 500}, mbuf.RxL4None, 300, frame)
	Csum.Forward(r.Stream)
	if got := r.tx.sent[0]; got.Flags != mbuf.TxTSO|mbuf.TxIPv4 || got.SegSize != 500 {
		t.Errorf("%+v", got)
	}
	r.accounted(t)
}

func TestSegmentsGetTheVLANTag(t *testing.T) {
	frame, _, _ := l4Case{payload: 1000}.build()
	r := newMergedRig(t, StreamConfig{TxOffloads: port.TxVLANInsert, VLAN: 9}, mbuf.RxL4None, 300, frame)
	MAC.Forward(r.Stream)
	for i, got := range r.tx.sent {
		if got.Flags != mbuf.TxVLAN || got.VLAN != 9 {
			t.Errorf("packet %d: flags %#x, tag %d", i, got.Flags, got.VLAN)
		}
	}
	if len(r.tx.sent) != 4 {
		t.Errorf("%d packets, want 4", len(r.tx.sent))
	}
}

// What cannot be cut is dropped and counted, and does not touch its neighbours.
func TestLargePacketsThatCannotBeCut(t *testing.T) {
	good, _, _ := l4Case{payload: 1000}.build()
	fragment := bytes.Clone(good)
	fragment[14+6] |= 0x20
	bad := map[string][]byte{
		"ARP":         packet(t, ether(0x0806), arp(1, macA, macB, ip4A, ip4B)),
		"a fragment":  fragment,
		"no Ethernet": []byte("short"),
	}
	for name, frame := range bad {
		for _, mode := range settlingModes {
			for _, offloads := range []port.TxOffloads{0, port.TxTCPTSO} {
				r := newMergedRig(t, StreamConfig{TxOffloads: offloads}, mbuf.RxL4None, 300, frame, good, frame)
				mode.Forward(r.Stream)
				want := 4
				if offloads != 0 {
					want = 1
				}
				if len(r.tx.sent) != want || r.TxDropped.Load() != 2 {
					t.Errorf("%s, %s: %d packets, %d dropped, want %d and 2", name, mode.Name, len(r.tx.sent), r.TxDropped.Load(), want)
				}
				r.accounted(t)
			}
		}
	}
}

func TestLargePacketsWithoutBuffers(t *testing.T) {
	frame, _, _ := l4Case{payload: 1000}.build()
	r := newMergedRig(t, StreamConfig{}, mbuf.RxL4None, 300, frame, frame)
	var held []*mbuf.Buf
	for r.pool.Free() > 7 { // 2 for each packet, and 4 for the segments of one need 8
		held = append(held, r.pool.Get())
	}
	r.UseCache(r.pool.NewCache(2))
	IO.Forward(r.Stream)
	if r.TxPackets.Load() != 4 || r.TxDropped.Load() != 1 {
		t.Errorf("%d packets sent, %d dropped, want the segments of one and the other packet", r.TxPackets.Load(), r.TxDropped.Load())
	}
	r.cache.Put(held)
	r.accounted(t)
}

// Segments for which the queue has no room are offered again, and then dropped.
func TestSegmentsWithoutRoom(t *testing.T) {
	frame, _, _ := l4Case{payload: 1000}.build()
	r := newMergedRig(t, StreamConfig{}, mbuf.RxL4None, 300, frame)
	r.tx.room = 3
	IO.Forward(r.Stream)
	if r.TxPackets.Load() != 3 || r.TxDropped.Load() != 1 {
		t.Errorf("%d packets sent, %d dropped, want 3 and 1", r.TxPackets.Load(), r.TxDropped.Load())
	}
	r.accounted(t)
}

// The segments of a burst are no longer burst than others.
func TestSegmentsGoInBursts(t *testing.T) {
	frame, _, _ := l4Case{payload: 1000}.build()
	r := newMergedRig(t, StreamConfig{Burst: 8}, mbuf.RxL4None, 100, frame, frame, frame)
	IO.Forward(r.Stream)
	if r.tx.longest != 8 || r.TxPackets.Load() != 30 {
		t.Errorf("%d packets, up to %d at a time, want 30 and 8", r.TxPackets.Load(), r.tx.longest)
	}
	r.accounted(t)
}

// mergedFlood is a flood of large packets.
type mergedFlood struct{ flood }

func (q *mergedFlood) Burst(bufs []*mbuf.Buf) int {
	n := q.flood.Burst(bufs)
	for _, b := range bufs[:n] {
		b.Flags, b.SegSize, b.CSumStart = mbuf.RxLRO|mbuf.RxL4None, 300, 0
	}
	return n
}

func TestCuttingDoesNotAllocate(t *testing.T) {
	for _, mode := range settlingModes {
		r := newRig(t, StreamConfig{})
		r.tx.quiet = true
		r.Rx = &mergedFlood{flood{payload: tcpFrame(t, 1000)}}
		r.UseCache(r.cache)
		if n := testing.AllocsPerRun(100, func() { mode.Forward(r.Stream) }); n != 0 {
			t.Errorf("%s: %v allocations a burst", mode.Name, n)
		}
		r.accounted(t)
	}
}
