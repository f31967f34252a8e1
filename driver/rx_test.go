package driver_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

func TestB11MergedPacketsCrossBursts(t *testing.T) {
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) { checkMergedPackets(t, kind) })
	}
}

func checkMergedPackets(t *testing.T, kind ringKind) {
	const room = mbuf.DefaultSize - mbuf.Headroom + virtio.NetHeaderSize // of one buffer
	r := startRig(t, rigConfig{
		dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, MTU: 9000},
		opts: kind.opts, buffers: 2048,
	})

	// 31 small packets, then one of 5 buffers: 4 of them beyond a burst of 32.
	var want [][]byte
	for i := range 31 {
		want = append(want, frame(64+i, byte(i)))
	}
	want = append(want, frame(5*room-virtio.NetHeaderSize-17, 0x77))
	for _, f := range want {
		if err := r.dev.Deliver(0, virtio.NetHeader{}, f); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]byte
	for range 3 {
		got = append(got, r.receive(32)...)
	}
	compareFrames(t, got, want)

	for _, size := range []int{room - 12, room - 12 + 1, 2*room - 12, 3*room - 12, 3*room - 12 + 1, 65535} {
		f := frame(size, byte(size))
		if err := r.dev.Deliver(0, virtio.NetHeader{}, f); err != nil {
			t.Fatal(err)
		}
		pkts := make([]*mbuf.Buf, 64)
		if n := r.rx().Burst(pkts); n != 1 {
			t.Fatalf("%d bytes: %d packets", size, n)
		}
		b := pkts[0]
		buffers := (size + 12 + room - 1) / room
		if b.Segments() != buffers || b.PacketLen() != size || b.Len() != min(size, room-12) || !bytes.Equal(contents(b), f) {
			t.Errorf("%d bytes: %d segments (want %d), %d bytes in all, %d in the first", size, b.Segments(), buffers, b.PacketLen(), b.Len())
		}
		b.Free()
	}
}

func TestB11PartsOneByOne(t *testing.T) {
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) { checkPartsOneByOne(t, kind) })
	}
}

func checkPartsOneByOne(t *testing.T, kind ringKind) {
	r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts})
	want := frame(5000, 3)
	deliver := partsOf(t, r, want)
	for i, use := range deliver {
		if got := r.receive(32); len(got) != 0 {
			t.Fatalf("a packet came after %d of %d parts", i, len(deliver))
		}
		use()
	}
	compareFrames(t, r.receive(32), [][]byte{want})

	// Parts that never come: nothing leaks at Stop, and the packet counts.
	deliver = partsOf(t, r, want)
	deliver[0]()
	if got := r.receive(32); len(got) != 0 {
		t.Fatal("an incomplete packet was delivered")
	}
	if err := r.port.Stop(); err != nil {
		t.Fatal(err)
	}
	if free := r.pool.Free(); free != r.pool.Size() {
		t.Errorf("%d of %d buffers are free", free, r.pool.Size())
	}
	if s := r.port.Stats(); s.RxErrors != 1 || s.RxPackets != 1 {
		t.Errorf("%d packets and %d errors, want 1 and 1", s.RxPackets, s.RxErrors)
	}
}

// partsOf writes a frame into as many buffers as it takes and gives a function
// for each that completes it.
func partsOf(t *testing.T, r *rig, f []byte) []func() {
	t.Helper()
	q := r.dev.Queue(virtio.RxQueue(0))
	packet := append(make([]byte, virtio.NetHeaderSize), f...)
	var use []func()
	var first []byte
	for rest := packet; len(rest) > 0; {
		c, err := q.Take()
		if err != nil {
			t.Fatal(err)
		}
		n := copy(c.Buffers[0].Bytes, rest)
		if first == nil {
			first = c.Buffers[0].Bytes
		}
		rest = rest[n:]
		use = append(use, func() { q.Use(uint32(c.Head), uint32(n)) })
	}
	hdr := virtio.NetHeader{NumBuffers: uint16(len(use))}
	hdr.Encode(first)
	return use
}

func compareFrames(t *testing.T, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("frame %d of %d bytes differs", i, len(want[i]))
		}
	}
}

func TestB12RingThatRanDryRecovers(t *testing.T) {
	for i, kind := range slices.Concat(ringKinds, inOrderKinds) {
		for _, desc := range []int{1, 33, 255, 256} {
			kind.opts.NoMergeable = i%2 == 1
			t.Run(fmt.Sprintf("%s/mergeable=%v/%d descriptors", kind.name, !kind.opts.NoMergeable, desc), func(t *testing.T) {
				// Fewer buffers than the ring can hold.
				r := startRig(t, rigConfig{
					dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer},
					opts: kind.opts, port: port.Config{RxDesc: desc}, buffers: min(100, max(desc-1, 1)),
				})
				q := r.dev.Queue(virtio.RxQueue(0))
				if q.Kicks() == 0 {
					t.Error("the device was not told of the first buffers")
				}
				posted := q.Available()
				if posted == 0 || posted > desc {
					t.Fatalf("%d buffers posted of %d descriptors", posted, desc)
				}
				held := make([]*mbuf.Buf, 0, 512)
				for i := range posted {
					if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(64, byte(i))); err != nil {
						t.Fatal(err)
					}
				}
				pkts := make([]*mbuf.Buf, 512)
				for len(held) < posted {
					n := r.rx().Burst(pkts)
					if n == 0 {
						t.Fatalf("only %d of %d packets came", len(held), posted)
					}
					held = append(held, pkts[:n]...)
				}
				if q.Available() != 0 {
					t.Fatalf("%d buffers are posted while all are held", q.Available())
				}
				if s := r.port.Stats(); s.RxNoBuf == 0 {
					t.Error("the shortage was not counted")
				}
				for _, b := range held {
					b.Free()
				}
				kicks := q.Kicks()
				for range 2 {
					r.rx().Burst(pkts)
				}
				if q.Available() == 0 {
					t.Fatal("after two polls no buffer is posted")
				}
				if q.Kicks() == kicks {
					t.Error("no kick followed the refill from empty")
				}
				if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(99, 5)); err != nil {
					t.Fatal(err)
				}
				compareFrames(t, r.receive(32), [][]byte{frame(99, 5)})
			})
		}
	}
}

func TestRxFullRingInOneBurst(t *testing.T) {
	for _, size := range []int{256, 512} {
		r := startRig(t, rigConfig{dev: fakedev.Config{QueueSize: size}, buffers: 2048})
		var want [][]byte
		for i := range size {
			want = append(want, frame(64, byte(i)))
			if err := r.dev.Deliver(0, virtio.NetHeader{}, want[i]); err != nil {
				t.Fatal(err)
			}
		}
		var got [][]byte
		for range 2 * size / 64 {
			got = append(got, r.receive(512)...)
		}
		compareFrames(t, got, want)
		if posted := r.dev.Queue(0).Available(); posted < size*7/8 {
			t.Errorf("%d of %d buffers are posted afterwards", posted, size)
		}
	}
}

func TestRxChecksumAndLRO(t *testing.T) {
	tests := []struct {
		name string
		hdr  virtio.NetHeader
		want mbuf.Flags
		bad  bool
	}{
		{"nothing known", virtio.NetHeader{}, 0, false},
		{"checked by the device", virtio.NetHeader{Flags: virtio.HdrDataValid}, mbuf.RxL4Good, false},
		{"not filled in", virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16}, mbuf.RxL4None, false},
		{"checksum field past the end", virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 100, CSumOffset: 60}, 0, true},
		{"checksum field that overflows", virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 0xffff, CSumOffset: 0xffff}, 0, true},
		{"lro", virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16, GSOType: virtio.GSOTCPv4, GSOSize: 60}, mbuf.RxL4None | mbuf.RxLRO, false},
		{"lro of size 0", virtio.NetHeader{GSOType: virtio.GSOTCPv6}, 0, true},
		{"unknown segmentation", virtio.NetHeader{GSOType: 255, GSOSize: 1}, 0, true},
		{"ecn alone", virtio.NetHeader{GSOType: virtio.GSOECN, GSOSize: 1}, 0, true},
		{"udp segments", virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 6, GSOType: virtio.GSOUDPL4, GSOSize: 60}, mbuf.RxL4None | mbuf.RxLRO, false},
		{"udp fragments were not negotiated", virtio.NetHeader{GSOType: virtio.GSOUDP, GSOSize: 1}, 0, true},
		{"lro with ecn", virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: 34, CSumOffset: 16, GSOType: virtio.GSOTCPv6 | virtio.GSOECN, GSOSize: 60}, mbuf.RxL4None | mbuf.RxLRO, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.NetGuestUSO4 | virtio.NetGuestUSO6},
				port: port.Config{RxOffloads: port.RxTCPCksum | port.RxUDPCksum | port.RxTCPLRO},
			})
			f := tcpFrame(ipv4, 100)
			if err := r.dev.Deliver(0, tt.hdr, f); err != nil {
				t.Fatal(err)
			}
			pkts := make([]*mbuf.Buf, 4)
			n := r.rx().Burst(pkts)
			if tt.bad {
				if n != 0 || r.port.Stats().RxErrors != 1 {
					t.Errorf("%d packets and %d errors, want none and 1", n, r.port.Stats().RxErrors)
				}
				return
			}
			if n != 1 || pkts[0].Flags != tt.want || !bytes.Equal(contents(pkts[0]), f) {
				t.Fatalf("%d packets, flags %#x want %#x", n, pkts[0].Flags, tt.want)
			}
			if tt.want&mbuf.RxLRO != 0 && pkts[0].SegSize != tt.hdr.GSOSize {
				t.Errorf("segment size %d, want %d", pkts[0].SegSize, tt.hdr.GSOSize)
			}
			pkts[0].Free()
		})
	}
}

func TestRxDropsWhatWasNotNegotiated(t *testing.T) {
	for name, hdr := range map[string]virtio.NetHeader{
		"udp segments": {GSOType: virtio.GSOUDPL4, GSOSize: 100},
		"lro":          {GSOType: virtio.GSOTCPv4, GSOSize: 100},
	} {
		r := startRig(t, rigConfig{port: port.Config{RxOffloads: port.RxTCPCksum}})
		if err := r.dev.Deliver(0, hdr, tcpFrame(ipv4, 200)); err != nil {
			t.Fatal(err)
		}
		if got := r.receive(4); len(got) != 0 || r.port.Stats().RxErrors != 1 {
			t.Errorf("%s: %d packets, %d errors", name, len(got), r.port.Stats().RxErrors)
		}
	}
}

func TestRxVLANStrip(t *testing.T) {
	plain := frame(100, 1)
	tagged := append(append(bytes.Clone(plain[:12]), 0x81, 0, 0x60, 0x0a), plain[12:]...)
	for _, mergeable := range []bool{true, false} {
		offered := virtio.Version1
		if mergeable {
			offered |= virtio.NetMrgRxbuf
		}
		r := startRig(t, rigConfig{dev: fakedev.Config{Offered: offered}, port: port.Config{RxOffloads: port.RxVLANStrip}})
		for _, f := range [][]byte{tagged, plain} {
			if err := r.dev.Deliver(0, virtio.NetHeader{}, f); err != nil {
				t.Fatal(err)
			}
		}
		pkts := make([]*mbuf.Buf, 4)
		if n := r.rx().Burst(pkts); n != 2 {
			t.Fatalf("%d packets", n)
		}
		if b := pkts[0]; b.Flags != mbuf.RxVLANStripped || b.VLAN != 0x600a || !bytes.Equal(contents(b), plain) {
			t.Errorf("mergeable=%v: tagged frame: flags %#x, VLAN %#x, %d bytes", mergeable, b.Flags, b.VLAN, b.PacketLen())
		}
		if b := pkts[1]; b.Flags != 0 || !bytes.Equal(contents(b), plain) {
			t.Errorf("mergeable=%v: plain frame: flags %#x, %d bytes", mergeable, b.Flags, b.PacketLen())
		}
		pkts[0].Free()
		pkts[1].Free()
		if s := r.port.Stats(); s.RxBytes != 200 {
			t.Errorf("mergeable=%v: %d bytes counted, want 200", mergeable, s.RxBytes)
		}
	}
}
