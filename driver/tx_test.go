package driver_test

import (
	"bytes"
	"fmt"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// headerLayout is a kind of header, and how to get it.
type headerLayout struct {
	name   string
	offer  virtio.Features
	rx     port.RxOffloads
	hdrLen int
}

func TestB07HeaderInHeadroomLeavesThePacketAlone(t *testing.T) {
	layouts := []headerLayout{
		{"header of 10", virtio.AnyLayout, 0, 10},
		{"header of 12", virtio.Version1, 0, 12},
		{"header of 12, packed", virtio.Version1 | virtio.RingPacked, 0, 12},
		{"header of 20", virtio.Version1 | virtio.NetHashReport | virtio.NetCtrlVQ, port.RxRSSHash, 20},
		{"header of 20, packed", virtio.Version1 | virtio.RingPacked | virtio.NetHashReport | virtio.NetCtrlVQ, port.RxRSSHash, 20},
	}
	segments := map[string][]int{"one segment": {100}, "three segments": {60, 50, 40}}
	for _, l := range layouts {
		for name, sizes := range segments {
			for offset := range 257 {
				for _, standard := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/offset %d/standard=%v", l.name, name, offset, standard), func(t *testing.T) {
						checkHeaderPlace(t, l, sizes, offset, standard)
					})
				}
			}
		}
	}
}

func checkHeaderPlace(t *testing.T, l headerLayout, sizes []int, offset int, standard bool) {
	r := startRig(t, rigConfig{
		dev:  fakedev.Config{Offered: l.offer, QueueSize: 8},
		opts: driver.Options{NoSimpleTx: standard}, port: port.Config{RxOffloads: l.rx}, buffers: 64,
	})
	var parts [][]byte
	for i, n := range sizes {
		parts = append(parts, frame(n, byte(i+1)))
	}
	b := r.packetAt(offset, parts...)
	want := contents(b)
	hdrLen := l.hdrLen
	geometry := func() string {
		return fmt.Sprint(b.Headroom(), b.Len(), b.PacketLen(), b.Segments())
	}
	before, addr := geometry(), b.IOVA()
	f := r.send(b)
	if !bytes.Equal(f.Data, want) {
		t.Fatal("the device reads other bytes")
	}
	if f.Header != (virtio.NetHeader{}) {
		t.Errorf("header %+v, want zeros", f.Header)
	}
	first := f.Chain.Buffers[0]
	if offset >= hdrLen {
		if first.Addr != addr-uint64(hdrLen) || len(first.Bytes) != hdrLen+sizes[0] || len(f.Chain.Buffers) != len(sizes) {
			t.Errorf("first descriptor at data%+d of %d bytes, %d in all", int64(first.Addr-addr), len(first.Bytes), len(f.Chain.Buffers))
		}
	} else if len(first.Bytes) != hdrLen || len(f.Chain.Buffers) != len(sizes)+1 {
		t.Error("without headroom the header has no descriptor of its own")
	}
	if after := geometry(); after != before {
		t.Errorf("headroom, length, packet length, segments are %s, were %s", after, before)
	}
	r.complete(f)
	if got := r.port.Stats(); got.TxPackets != 1 || got.TxBytes != uint64(len(want)) {
		t.Errorf("counted %d packets of %d bytes, want 1 of %d", got.TxPackets, got.TxBytes, len(want))
	}
}

func TestTxStopsAtAFullRingAndGoesOn(t *testing.T) {
	for _, offloads := range []port.TxOffloads{0, port.TxMultiSegs} {
		r := startRig(t, rigConfig{dev: fakedev.Config{QueueSize: 16}, port: port.Config{TxOffloads: offloads}})
		var pkts []*mbuf.Buf
		for i := range 20 {
			pkts = append(pkts, r.packet(frame(64, byte(i))))
		}
		if n := r.tx().Burst(pkts); n != 16 {
			t.Fatalf("%v: a ring of 16 took %d packets", offloads, n)
		}
		if n := r.tx().Burst(pkts[16:]); n != 0 {
			t.Fatalf("%v: a full ring took %d packets", offloads, n)
		}
		if frames, err := r.dev.Sent(0); err != nil || len(frames) != 16 {
			t.Fatalf("%v: the device saw %d frames, %v", offloads, len(frames), err)
		}
		if n := r.tx().Burst(pkts[16:]); n != 4 {
			t.Fatalf("%v: after the completions it took %d packets, want 4", offloads, n)
		}
		frames, err := r.dev.Sent(0)
		if err != nil || len(frames) != 4 || !bytes.Equal(frames[0].Data, frame(64, 16)) {
			t.Fatalf("%v: the device saw %d frames, %v", offloads, len(frames), err)
		}
	}
}

func TestTxDescriptorLimit(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{TxDesc: 40}})
	var pkts []*mbuf.Buf
	for i := range 64 {
		pkts = append(pkts, r.packet(frame(64, byte(i))))
	}
	if n := r.tx().Burst(pkts); n != 40 {
		t.Errorf("40 of 256 descriptors took %d packets", n)
	}
	for _, b := range pkts[40:] {
		b.Free()
	}
}

func TestTxKicksOncePerBurstAndOnlyWhenWanted(t *testing.T) {
	r := startRig(t, rigConfig{})
	q := r.dev.Queue(virtio.TxQueue(0))
	burst := func() {
		pkts := []*mbuf.Buf{r.packet(frame(64, 1)), r.packet(frame(64, 2))}
		if n := r.tx().Burst(pkts); n != 2 {
			t.Fatalf("Burst took %d", n)
		}
	}
	burst()
	burst()
	if got := q.Kicks(); got != 2 {
		t.Errorf("%d kicks for two bursts", got)
	}
	q.SuppressKicks(true)
	burst()
	if got := q.Kicks(); got != 2 {
		t.Errorf("%d kicks although the device wants none", got)
	}
	if n := r.tx().Burst(nil); n != 0 || q.Kicks() != 2 {
		t.Error("an empty burst did something")
	}
}

func TestTxDropsRequestsThatWereNotEnabled(t *testing.T) {
	tests := []struct {
		name    string
		enabled port.TxOffloads
		flags   mbuf.Flags
		prepare func(*mbuf.Buf)
	}{
		{"checksum on the simple path", 0, mbuf.TxTCPChecksum | mbuf.TxIPv4, nil},
		{"udp checksum where tcp is enabled", port.TxTCPCksum, mbuf.TxUDPChecksum | mbuf.TxIPv4, nil},
		{"tso where only the checksum is enabled", port.TxTCPCksum, mbuf.TxTSO | mbuf.TxTCPChecksum | mbuf.TxIPv4, nil},
		{"no ip version", port.TxTCPCksum, mbuf.TxTCPChecksum, nil},
		{"checksum field beyond the segment", port.TxTCPCksum, mbuf.TxTCPChecksum | mbuf.TxIPv4, func(b *mbuf.Buf) { b.Truncate(50) }},
		{"segment size 0", port.TxTCPTSO, mbuf.TxTSO | mbuf.TxIPv4, func(b *mbuf.Buf) { b.SegSize = 0 }},
		{"vlan without headroom", port.TxVLANInsert, mbuf.TxVLAN, func(b *mbuf.Buf) { moveStart(b, 3); b.Append(60) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, rigConfig{port: port.Config{TxOffloads: tt.enabled}})
			b := r.packet(tcpFrame(ipv4, 100))
			b.Flags, b.L2Len, b.L3Len, b.L4Len, b.SegSize = tt.flags, 14, 20, 20, 1000
			if tt.prepare != nil {
				tt.prepare(b)
			}
			good := r.packet(frame(64, 9))
			if n := r.tx().Burst([]*mbuf.Buf{b, good}); n != 2 {
				t.Errorf("Burst took %d packets, want both", n)
			}
			frames, err := r.dev.Sent(0)
			if err != nil || len(frames) != 1 || !bytes.Equal(frames[0].Data, frame(64, 9)) {
				t.Errorf("the device saw %d frames (%v), want the good one", len(frames), err)
			}
			if got := r.port.Stats(); got.TxErrors != 1 {
				t.Errorf("%d errors counted, want 1", got.TxErrors)
			}
		})
	}
}

// A packet in memory that the device can't reach is dropped, on every path; the
// others go.
func TestTxDropsLentPackets(t *testing.T) {
	for _, opts := range []driver.Options{{}, {NoSimpleTx: true}} {
		r := startRig(t, rigConfig{dev: fakedev.Config{Offered: virtio.Version1, QueueSize: 8}, opts: opts, buffers: 64})
		l := mbuf.NewLender(2)
		behind := r.packet(frame(14, 1))
		behind.Chain(l.Lend(frame(500, 2), 0))
		burst := []*mbuf.Buf{l.Lend(frame(500, 3), 0), r.packet(frame(60, 4)), behind, r.packet(frame(61, 5))}
		if n := r.tx().Burst(burst); n != 4 {
			t.Fatalf("Burst = %d, want 4", n)
		}
		if s := r.port.Stats(); s.TxErrors != 2 || s.TxPackets != 2 || l.Out() != 0 {
			t.Errorf("%d sent, %d errors, %d still lent; want 2, 2 and 0", s.TxPackets, s.TxErrors, l.Out())
		}
	}
}

// The number of buffers that a packet was received in is not sent on, but where the
// application says that it may be; all else in the header is cleared either way.
func TestNumBuffersOfAForwardedPacket(t *testing.T) {
	for _, standard := range []bool{false, true} {
		for _, keep := range []bool{false, true} {
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: virtio.Version1 | virtio.NetMrgRxbuf},
				opts: driver.Options{NoSimpleTx: standard, KeepNumBuffers: keep},
			})
			forwarded := func(received virtio.NetHeader) virtio.NetHeader {
				b := r.packet(frame(60, 1))
				received.Encode(b.Head(virtio.NetHeaderSize))
				f := r.send(b)
				r.complete(f)
				return f.Header
			}
			want := virtio.NetHeader{}
			if keep {
				want.NumBuffers = 1
			}
			if got := forwarded(virtio.NetHeader{NumBuffers: 1}); got != want {
				t.Errorf("standard=%v, keep=%v: sent with %+v, want %+v", standard, keep, got, want)
			}
			if got := forwarded(virtio.NetHeader{CSumOffset: 16, NumBuffers: 1}); got != (virtio.NetHeader{}) {
				t.Errorf("standard=%v, keep=%v: sent with %+v, want zeros", standard, keep, got)
			}
		}
	}
}
