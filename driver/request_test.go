package driver_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// taggedFrame puts tags into an Ethernet frame and an IPv6 extension header
// (hop by hop, 8 bytes) in front of its L4 header.
func taggedFrame(v ipVersion, proto byte, l4, payload, tags int, extension bool) (f []byte, l2, l3 int) {
	f = l4Frame(v, proto, l4, payload)
	l2, l3 = 14, 20
	if v == ipv6 {
		l3 = 40
		if extension {
			f = append(f[:54:54], append([]byte{proto, 0, 1, 4, 0, 0, 0, 0}, f[54:]...)...)
			f[20] = 0 // hop by hop comes next
			binary.BigEndian.PutUint16(f[18:], uint16(len(f)-54))
			l3 = 48
		}
	}
	for range tags {
		f = append(f[:12:12], append([]byte{0x81, 0, 0, 7}, f[12:]...)...)
		l2 += 4
	}
	return f, l2, l3
}

// segmentTCP is what a device makes of a TSO request, written from RFC 9293 and
// RFC 791: one frame for each segment, all sums filled in.
func segmentTCP(t *testing.T, f []byte, h virtio.NetHeader, v ipVersion, l2 int) [][]byte {
	t.Helper()
	headers, start := int(h.HdrLen), int(h.CSumStart)
	var out [][]byte
	sequence := binary.BigEndian.Uint32(f[start+4:])
	for payload := f[headers:]; len(payload) > 0; {
		n := min(len(payload), int(h.GSOSize))
		s := append(bytes.Clone(f[:headers]), payload[:n]...)
		binary.BigEndian.PutUint32(s[start+4:], sequence)
		if v == ipv4 {
			binary.BigEndian.PutUint16(s[l2+2:], uint16(len(s)-l2))
			s[l2+10], s[l2+11] = 0, 0
			binary.BigEndian.PutUint16(s[l2+10:], internetSum(s[l2:start]))
		} else {
			binary.BigEndian.PutUint16(s[l2+4:], uint16(len(s)-l2-40))
		}
		// The device starts from the pseudo-header's sum of the whole packet
		// and takes the difference of the lengths into account.
		seed := uint32(binary.BigEndian.Uint16(s[start+16:])) + uint32(^uint16(uint32(len(f)-start)&0xffff)) + uint32(^uint16(uint32(len(f)-start)>>16)) + uint32(len(s)-start)
		seed = seed>>16 + seed&0xffff
		seed = seed>>16 + seed&0xffff
		binary.BigEndian.PutUint16(s[start+16:], uint16(seed))
		binary.BigEndian.PutUint16(s[start+16:], internetSum(s[start:]))
		out = append(out, s)
		payload, sequence = payload[n:], sequence+uint32(n)
	}
	return out
}

// tcpSum is the right TCP checksum of a frame whose L4 header is at start.
func tcpSum(v ipVersion, f []byte, l2, start int) uint16 {
	addrs := f[l2+12 : l2+20]
	if v == ipv6 {
		addrs = f[l2+8 : l2+40]
	}
	segment := bytes.Clone(f[start:])
	segment[16], segment[17] = 0, 0
	pseudo := binary.BigEndian.AppendUint32(bytes.Clone(addrs), uint32(len(segment)))
	return internetSum(append(append(pseudo, 0, 0, 0, 6), segment...))
}

func TestB24SegmentsHaveRightChecksums(t *testing.T) {
	for _, v := range []ipVersion{ipv4, ipv6} {
		for tags := range 3 {
			for _, extension := range []bool{false, true} {
				if extension && v == ipv4 {
					continue
				}
				for _, payload := range []int{1, 999, 1000, 1001, 9000, 64000, 70000} {
					for _, mss := range []uint16{1, 536, 1448, 65535} {
						if mss == 1 && payload > 1001 {
							continue // thousands of frames show nothing new
						}
						name := fmt.Sprintf("ipv%d/%d tags/extension=%v/%d bytes/mss %d", v, tags, extension, payload, mss)
						t.Run(name, func(t *testing.T) { checkSegments(t, v, tags, extension, payload, mss) })
					}
				}
			}
		}
	}
}

func checkSegments(t *testing.T, v ipVersion, tags int, extension bool, payload int, mss uint16) {
	r := startRig(t, rigConfig{port: port.Config{TxOffloads: port.TxTCPTSO | port.TxMultiSegs}})
	f, l2, l3 := taggedFrame(v, 6, 20, payload, tags, extension)
	var parts [][]byte
	for rest := f; len(rest) > 0; rest = rest[min(2000, len(rest)):] {
		parts = append(parts, rest[:min(2000, len(rest))])
	}
	b := r.packet(parts...)
	b.L2Len, b.L3Len, b.L4Len, b.SegSize = uint16(l2), uint16(l3), 20, mss
	b.Flags = mbuf.TxTSO | mbuf.TxIPv4
	if v == ipv6 {
		b.Flags = mbuf.TxTSO | mbuf.TxIPv6
	}
	sent := r.send(b)
	if int(sent.Header.CSumStart) != l2+l3 || int(sent.Header.HdrLen) != l2+l3+20 {
		t.Fatalf("header %+v, want the TCP header at %d", sent.Header, l2+l3)
	}
	var data []byte
	for i, s := range segmentTCP(t, sent.Data, sent.Header, v, l2) {
		if got, want := binary.BigEndian.Uint16(s[l2+l3+16:]), tcpSum(v, s, l2, l2+l3); got != want {
			t.Fatalf("segment %d has the checksum %#04x, right is %#04x", i, got, want)
		}
		data = append(data, s[l2+l3+20:]...)
	}
	if !bytes.Equal(data, f[l2+l3+20:]) {
		t.Error("the segments carry other data")
	}
	r.complete(sent)
}

func TestB24PrepareRefusesWhatCannotBe(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{TxOffloads: port.TxTCPTSO | port.TxTCPCksum | port.TxVLANInsert}})
	q := r.tx().(*driver.TxQueue)
	good := func() *mbuf.Buf {
		b := r.packet(tcpFrame(ipv4, 100))
		b.Flags, b.L2Len, b.L3Len, b.L4Len, b.SegSize = mbuf.TxTSO|mbuf.TxIPv4, 14, 20, 20, 50
		return b
	}
	tests := map[string]func(b *mbuf.Buf){
		"segment size":      func(b *mbuf.Buf) { b.SegSize = 0 },
		"no L4 length":      func(b *mbuf.Buf) { b.L4Len = 0 },
		"short L4 length":   func(b *mbuf.Buf) { b.L4Len = 19 },
		"udp checksum":      func(b *mbuf.Buf) { b.Flags |= mbuf.TxUDPChecksum },
		"no ip version":     func(b *mbuf.Buf) { b.Flags &^= mbuf.TxIPv4 },
		"both ip versions":  func(b *mbuf.Buf) { b.Flags |= mbuf.TxIPv6 },
		"short L3 length":   func(b *mbuf.Buf) { b.L3Len = 19 },
		"lengths past end":  func(b *mbuf.Buf) { b.L2Len = 60000; b.L3Len = 20 },
		"lengths that wrap": func(b *mbuf.Buf) { b.L2Len = 65535; b.L3Len = 65535 },
		"headers split":     func(b *mbuf.Buf) { b.Truncate(40) },
		"vlan, no room":     func(b *mbuf.Buf) { b.Prepend(b.Headroom() - 3); b.Flags |= mbuf.TxVLAN },
	}
	for name, spoil := range tests {
		pkts := []*mbuf.Buf{good(), good(), good()}
		spoil(pkts[1])
		last := bytes.Clone(pkts[2].Bytes())
		n, err := q.Prepare(pkts)
		if n != 1 || err == nil || !strings.Contains(err.Error(), "packet 1") {
			t.Errorf("%s: Prepare says %d, %v", name, n, err)
		}
		if !bytes.Equal(pkts[2].Bytes(), last) {
			t.Errorf("%s: a later packet was touched", name)
		}
		if sent := q.Burst(pkts); sent != 3 {
			t.Fatalf("%s: Burst took %d", name, sent)
		}
		if frames, err := r.dev.Sent(0); err != nil || len(frames) != 2 {
			t.Errorf("%s: the device saw %d frames, %v; want the two good ones", name, len(frames), err)
		}
		q.Reclaim()
	}
	if errors := r.port.Stats().TxErrors; errors != uint64(len(tests)) {
		t.Errorf("%d errors counted for %d bad packets", errors, len(tests))
	}
}

// TestB30HeaderIsWrittenOnlyWhenItChanges sends a buffer again whose memory has
// become read-only: on either path, a header that stands there already is left
// alone.
func TestB30HeaderIsWrittenOnlyWhenItChanges(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, offloads := range []port.TxOffloads{0, port.TxTCPCksum} {
		r := startRig(t, rigConfig{port: port.Config{TxOffloads: offloads}, bufSize: 3 * 4096})
		b := r.packet(frame(64, 1))
		clear(b.Head(b.Headroom()))
		page := pageOf(t, r, b)
		if err := unix.Mprotect(page, unix.PROT_READ); err != nil {
			t.Fatal(err)
		}
		f := r.send(b)
		if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			t.Fatal(err)
		}
		r.complete(f)
	}
}

// pageOf is the page that b's header lies in.
func pageOf(t *testing.T, r *rig, b *mbuf.Buf) []byte {
	t.Helper()
	region := r.mem.Regions()[0]
	offset := int(b.IOVA()-region.IOVA) &^ 4095
	return region.Bytes[offset : offset+4096]
}

func TestTxUSOHeader(t *testing.T) {
	for _, v := range []ipVersion{ipv4, ipv6} {
		r := startRig(t, rigConfig{
			dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.NetHostUSO},
			port: port.Config{TxOffloads: port.TxUDPTSO},
		})
		if capa := r.port.Info().TxCapa; capa&port.TxUDPTSO == 0 {
			t.Fatalf("capabilities %v", capa)
		}
		f := l4Frame(v, 17, 8, 1500)
		b := r.packet(f)
		l3 := 20
		b.Flags = mbuf.TxUSO | mbuf.TxIPv4
		if v == ipv6 {
			l3, b.Flags = 40, mbuf.TxUSO|mbuf.TxIPv6
		}
		b.L2Len, b.L3Len, b.L4Len, b.SegSize = 14, uint16(l3), 8, 700
		sent := r.send(b)
		want := virtio.NetHeader{
			Flags: virtio.HdrNeedsCSum, GSOType: virtio.GSOUDPL4, GSOSize: 700, HdrLen: uint16(14 + l3 + 8),
			CSumStart: uint16(14 + l3), CSumOffset: 6,
		}
		if sent.Header != want {
			t.Errorf("ipv%d: header %+v\nwant %+v", v, sent.Header, want)
		}
		if got, want := completeChecksum(sent.Data, sent.Header), fullSum(v, sent.Data, 14, 17, 6); got != want {
			t.Errorf("ipv%d: checksum %#04x, right is %#04x", v, got, want)
		}
		r.complete(sent)
	}
}

func TestTxECNIsPassedOnWhereNegotiated(t *testing.T) {
	for _, offered := range []virtio.Features{0, virtio.NetHostECN} {
		for _, cwr := range []bool{false, true} {
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | offered},
				port: port.Config{TxOffloads: port.TxTCPTSO},
			})
			f := tcpFrame(ipv4, 1400)
			f[47] &^= 0x80
			if cwr {
				f[47] |= 0x80
			}
			b := r.packet(f)
			b.Flags, b.L2Len, b.L3Len, b.L4Len, b.SegSize = mbuf.TxTSO|mbuf.TxIPv4, 14, 20, 20, 500
			sent := r.send(b)
			want := virtio.GSOTCPv4
			if cwr && offered != 0 {
				want |= virtio.GSOECN
			}
			if sent.Header.GSOType != want {
				t.Errorf("HOST_ECN %v, CWR %v: type %#x, want %#x", offered != 0, cwr, sent.Header.GSOType, want)
			}
			r.complete(sent)
		}
	}
}

func TestOffloadsWhereAvailable(t *testing.T) {
	r := newRig(t, rigConfig{
		dev:  fakedev.Config{Offered: virtio.Version1 | virtio.NetCSUM, Pairs: 2},
		port: port.Config{WhereAvailable: true, TxOffloads: port.TxTCPTSO | port.TxTCPCksum, RxOffloads: port.RxTCPLRO | port.RxVLANStrip, RxQueues: 8},
	})
	if err := r.port.Start(); err != nil {
		t.Fatal(err)
	}
	info := r.port.Info()
	if info.TxActive != port.TxTCPCksum || info.RxActive != port.RxVLANStrip || info.RxQueues != 2 {
		t.Errorf("active: Tx %v, Rx %v, %d queues", info.TxActive, info.RxActive, info.RxQueues)
	}
	for _, lost := range []string{"TCP_TSO", "TCP_LRO", "2 queues of 8"} {
		if !strings.Contains(r.log.String(), lost) {
			t.Errorf("nobody was told of %s:\n%s", lost, r.log.String())
		}
	}
}

func TestRingIsAsSmallAsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		offer      virtio.Features
		desc, want int
	}{
		{virtio.Version1, 100, 128}, {virtio.Version1, 64, 64}, {virtio.Version1, 1, 1}, {virtio.Version1, 1000, 256}, {virtio.Version1, 0, 256},
		{virtio.Version1 | virtio.RingPacked, 100, 100}, {virtio.AnyLayout, 100, 256},
	} {
		r := startRig(t, rigConfig{dev: fakedev.Config{Offered: tt.offer}, port: port.Config{RxDesc: tt.desc}})
		q := r.dev.Queue(virtio.RxQueue(0))
		if q.Size() != tt.want {
			t.Errorf("%v, %d descriptors: ring of %d, want %d", tt.offer, tt.desc, q.Size(), tt.want)
		}
		if limit := min(tt.desc, 256); tt.desc != 0 && q.Available() != limit {
			t.Errorf("%v, %d descriptors: %d buffers are out", tt.offer, tt.desc, q.Available())
		}
	}
}
