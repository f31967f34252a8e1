package offload

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"vionet/mbuf"
)

// newPool makes count buffers with room bytes each.
func newPool(t testing.TB, count, room int) *mbuf.Pool {
	t.Helper()
	size := room + mbuf.Headroom
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(size) + 4096, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count, BufSize: size})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// bench is a segmenter at work.
type bench struct {
	Segmenter
	pool  *mbuf.Pool
	cache *mbuf.Cache
}

func newBench(t testing.TB, count, room int) *bench {
	pool := newPool(t, count, room)
	return &bench{pool: pool, cache: pool.NewCache(0)}
}

// packet puts frame into buffers of which the first holds first bytes.
func (w *bench) packet(t testing.TB, frame []byte, first int) *mbuf.Buf {
	t.Helper()
	room := w.pool.BufSize() - mbuf.Headroom
	var head *mbuf.Buf
	for n := first; head == nil || len(frame) > 0; n = room {
		b := w.pool.Get()
		if b == nil {
			t.Fatal("the pool is empty")
		}
		frame = frame[copy(b.Append(min(n, len(frame))), frame):]
		if head == nil {
			head = b
		} else {
			head.Chain(b)
		}
	}
	return head
}

// whole checks that all buffers are back.
func (w *bench) whole(t interface{ Errorf(string, ...any) }) {
	w.cache.Flush()
	if free := w.pool.Free(); free != w.pool.Size() {
		t.Errorf("%d of %d buffers are back", free, w.pool.Size())
	}
}

func bytesOf(b *mbuf.Buf) (frame []byte) {
	for ; b != nil; b = b.Next() {
		frame = append(frame, b.Bytes()...)
	}
	return frame
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Two segments whose every byte was worked out by hand.
func TestSegmentsByHand(t *testing.T) {
	w := newBench(t, 16, 2048)
	frame := unhex(t, `
		020000000002 020000000001 0800
		4500 0000 fffe 4000 4006 0000 0a000001 0a000002
		1234 0050 fffffffd 00000007 5099 0100 0000 0000
		0102030405`)
	// Flags 99 are CWR, ACK, PSH and FIN. The sequence number wraps, and so does
	// the IP identification two segments on. Sums of the IP headers:
	//   4500+002b+fffe+4000+4006+0a00+0001+0a00+0002 = 1d932 -> d933, ~ 26cc
	//   4500+002a+ffff+4000+4006+0a00+0001+0a00+0002 = 1d932 -> d933, ~ 26cc
	// Pseudo-headers: 0a00+0001+0a00+0002+0006+0017 = 1420, with 0016 it is 141f.
	//   1420+1234+0050+ffff+fffd+0000+0007+5090+0100+0102+0300 = 27c39 -> 7c3b, ~ 83c4
	//   141f+1234+0050+0000+0000+0000+0007+5019+0100+0405 = 7bc8, ~ 8437
	want := [][]byte{unhex(t, `
		020000000002 020000000001 0800
		4500 002b fffe 4000 4006 26cc 0a000001 0a000002
		1234 0050 fffffffd 00000007 5090 0100 83c4 0000
		010203`), unhex(t, `
		020000000002 020000000001 0800
		4500 002a ffff 4000 4006 26cc 0a000001 0a000002
		1234 0050 00000000 00000007 5019 0100 8437 0000
		0405`)}
	b := w.packet(t, frame, 2048)
	b.Flags = mbuf.TxTSO | mbuf.TxIPv4
	b.L2Len, b.L3Len, b.L4Len, b.SegSize = 14, 20, 20, 3
	segments, err := w.Segment(b, w.cache, 0)
	if err != nil || len(segments) != len(want) {
		t.Fatalf("%d segments, %v", len(segments), err)
	}
	for i, s := range segments {
		if got := bytesOf(s); !bytes.Equal(got, want[i]) || s.Flags != 0 {
			t.Errorf("segment %d, flags %#x\n%x, want\n%x", i, s.Flags, got, want[i])
		}
	}
	if !bytes.Equal(bytesOf(b), frame) {
		t.Errorf("the packet itself was changed: %x", bytesOf(b))
	}
	w.cache.Put(segments)
	b.Free()
	w.whole(t)
}

// sample is a packet to be cut, and what it is made of.
type sample struct {
	ipv6, udp       bool
	l2, l3, l4      int
	id              uint16
	seq             uint32
	tcpFlags        byte
	headers, rest   []byte
	size, room      int
	first           int // bytes in the first buffer
	leave, tag      mbuf.Flags
	vlan            uint16
	inFrameVLANTags int
}

func draw(t *rapid.T) sample {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	s := sample{ipv6: rapid.Bool().Draw(t, "ipv6"), udp: rapid.Bool().Draw(t, "udp"), inFrameVLANTags: number("tags", 0, 2)}
	s.l2, s.l3, s.l4 = 14+4*s.inFrameVLANTags, 20+4*number("ip options", 0, 10), 20+4*number("tcp options", 0, 10)
	kind := []byte{0x08, 0x00}
	if s.ipv6 {
		s.l3, kind = 40, []byte{0x86, 0xdd}
	}
	if s.udp {
		s.l4 = 8
	}
	s.headers = rapid.SliceOfN(rapid.Byte(), s.l2+s.l3+s.l4, s.l2+s.l3+s.l4).Draw(t, "headers")
	copy(s.headers[s.l2-2:], kind)
	ip, l4 := s.headers[s.l2:s.l2+s.l3], s.headers[s.l2+s.l3:]
	if s.ipv6 {
		ip[0] = 0x60 | ip[0]&0xf
	} else {
		ip[0], ip[6], ip[7] = byte(0x40+s.l3/4), ip[6]&0xc0, 0
		s.id = binary.BigEndian.Uint16(ip[4:])
	}
	if !s.udp {
		l4[12] = byte(s.l4/4)<<4 | l4[12]&0xf
		s.seq, s.tcpFlags = binary.BigEndian.Uint32(l4[4:]), l4[13]
	}
	s.size = number("segment", 1, 1500)
	s.rest = rapid.SliceOfN(rapid.Byte(), 0, min(64*s.size, 5000)).Draw(t, "payload")
	s.room = rapid.SampledFrom([]int{142, 333, 2048}).Draw(t, "room") // no headers have more than 142
	s.first = number("first", len(s.headers), s.room)
	s.leave = rapid.SampledFrom([]mbuf.Flags{0, mbuf.TxTCPChecksum, mbuf.TxUDPChecksum, mbuf.TxTCPChecksum | mbuf.TxUDPChecksum}).Draw(t, "leave")
	s.tag = rapid.SampledFrom([]mbuf.Flags{0, mbuf.TxVLAN}).Draw(t, "tag")
	s.vlan = rapid.Uint16().Draw(t, "vlan")
	return s
}

func (s *sample) request(b *mbuf.Buf) {
	b.Flags, b.VLAN, b.SegSize = s.tag, s.vlan, uint16(s.size)
	b.L2Len, b.L3Len, b.L4Len = uint16(s.l2), uint16(s.l3), uint16(s.l4)
	b.Flags |= map[bool]mbuf.Flags{false: mbuf.TxTSO, true: mbuf.TxUSO}[s.udp]
	b.Flags |= map[bool]mbuf.Flags{false: mbuf.TxIPv4, true: mbuf.TxIPv6}[s.ipv6]
}

// expected is segment i of n, with what a reader of the RFCs would write into
// its headers.
func (s *sample) expected(i, n int) (frame []byte, flags mbuf.Flags) {
	payload := s.rest[i*s.size : min((i+1)*s.size, len(s.rest))]
	frame = append(bytes.Clone(s.headers), payload...)
	ip, l4 := frame[s.l2:], frame[s.l2+s.l3:]
	addresses, at, proto, request := ip[12:20], 16, byte(6), mbuf.TxTCPChecksum
	if s.ipv6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(l4)))
		addresses = ip[8:40]
	} else {
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		binary.BigEndian.PutUint16(ip[4:], s.id+uint16(i))
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], ^slowSum(ip[:s.l3]))
	}
	if s.udp {
		at, proto, request = 6, 17, mbuf.TxUDPChecksum
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	} else {
		binary.BigEndian.PutUint32(l4[4:], s.seq+uint32(i*s.size))
		l4[13] = s.tcpFlags
		if i != 0 {
			l4[13] &= 0x7f // no CWR
		}
		if i != n-1 {
			l4[13] &= 0xf6 // neither FIN nor PSH
		}
	}
	binary.BigEndian.PutUint16(l4[at:], 0)
	if s.leave&request != 0 {
		return frame, s.tag | request | map[bool]mbuf.Flags{false: mbuf.TxIPv4, true: mbuf.TxIPv6}[s.ipv6]
	}
	sum := ^slowSum(addresses, []byte{0, proto, byte(len(l4) >> 8), byte(len(l4))}, l4)
	if s.udp && sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(l4[at:], sum)
	return frame, s.tag
}

func TestSegments(t *testing.T) {
	pools := map[int]*bench{}
	rapid.Check(t, func(rt *rapid.T) {
		s := draw(rt)
		w := pools[s.room]
		if w == nil {
			w = newBench(t, 4096, s.room)
			pools[s.room] = w
		}
		frame := append(bytes.Clone(s.headers), s.rest...)
		b := w.packet(t, frame, s.first)
		s.request(b)
		segments, err := w.Segment(b, w.cache, s.leave)
		want := max((len(s.rest)+s.size-1)/s.size, 1)
		if err != nil || len(segments) != want {
			rt.Fatalf("%d segments, want %d: %v", len(segments), want, err)
		}
		for i, seg := range segments {
			frame, flags := s.expected(i, want)
			if got := bytesOf(seg); !bytes.Equal(got, frame) || seg.PacketLen() != len(frame) {
				rt.Errorf("segment %d of %d, %d bytes:\n%x, want\n%x", i, want, seg.PacketLen(), got, frame)
			}
			if seg.Flags != flags || seg.VLAN != s.vlan {
				rt.Errorf("segment %d: flags %#x, tag %d, want %#x and %d", i, seg.Flags, seg.VLAN, flags, s.vlan)
			}
			if flags&mbuf.TxL4Mask != 0 && (int(seg.L2Len) != s.l2 || int(seg.L3Len) != s.l3 || int(seg.L4Len) != s.l4) {
				rt.Errorf("segment %d: lengths %d, %d, %d", i, seg.L2Len, seg.L3Len, seg.L4Len)
			}
		}
		if got := bytesOf(b); !bytes.Equal(got, frame) {
			rt.Errorf("the packet itself was changed:\n%x, was\n%x", got, frame)
		}
		w.cache.Put(segments)
		b.Free()
		w.whole(rt)
	})
}

// tcp4 is a packet of n bytes of TCP payload that asks for segments of size.
func tcp4(t testing.TB, w *bench, n, size int) *mbuf.Buf {
	frame := append(unhex(t, `
		020000000002 020000000001 0800
		4500 0000 0000 4000 4006 0000 0a000001 0a000002
		1234 0050 00000000 00000000 5010 0100 0000 0000`), make([]byte, n)...)
	b := w.packet(t, frame, min(2048, w.pool.BufSize()-mbuf.Headroom))
	b.Flags = mbuf.TxTSO | mbuf.TxIPv4
	b.L2Len, b.L3Len, b.L4Len, b.SegSize = 14, 20, 20, uint16(size)
	return b
}

func TestWhatCannotBeCut(t *testing.T) {
	w := newBench(t, 1024, 2048)
	for name, spoil := range map[string]func(b *mbuf.Buf){
		"no request":              func(b *mbuf.Buf) { b.Flags = mbuf.TxIPv4 },
		"two requests":            func(b *mbuf.Buf) { b.Flags |= mbuf.TxUSO },
		"no IP":                   func(b *mbuf.Buf) { b.Flags = mbuf.TxTSO },
		"both kinds of IP":        func(b *mbuf.Buf) { b.Flags |= mbuf.TxIPv6 },
		"the other kind of IP":    func(b *mbuf.Buf) { b.Flags = mbuf.TxTSO | mbuf.TxIPv6; b.L3Len = 40 },
		"UDP with TCP's length":   func(b *mbuf.Buf) { b.Flags = mbuf.TxUSO | mbuf.TxIPv4 },
		"segments of nothing":     func(b *mbuf.Buf) { b.SegSize = 0 },
		"too many segments":       func(b *mbuf.Buf) { b.SegSize = 3 },
		"short IP header":         func(b *mbuf.Buf) { b.L3Len = 16 },
		"IP header without end":   func(b *mbuf.Buf) { b.Bytes()[14] = 0x46 },
		"a fragment":              func(b *mbuf.Buf) { b.Bytes()[21] = 1 },
		"the first fragment":      func(b *mbuf.Buf) { b.Bytes()[20] = 0x20 },
		"short TCP header":        func(b *mbuf.Buf) { b.L4Len = 16 },
		"another TCP header":      func(b *mbuf.Buf) { b.Bytes()[46] = 0x60 },
		"headers beyond the data": func(b *mbuf.Buf) { b.Truncate(53) },
		"lengths that wrap":       func(b *mbuf.Buf) { b.L2Len, b.L3Len, b.L4Len = 65000, 65000, 65000 },
	} {
		b := tcp4(t, w, 1600, 100)
		spoil(b)
		if segments, err := w.Segment(b, w.cache, 0); !errors.Is(err, ErrRequest) || segments != nil {
			t.Errorf("%s: %d segments, %v", name, len(segments), err)
		}
		b.Free()
	}
	w.whole(t)
	small := newBench(t, 1024, 53) // no buffer holds the headers
	b := small.packet(t, make([]byte, 200), 53)
	b.Flags, b.L2Len, b.L3Len, b.L4Len, b.SegSize = mbuf.TxTSO|mbuf.TxIPv4, 14, 20, 20, 10
	if _, err := small.Segment(b, small.cache, 0); !errors.Is(err, ErrRequest) {
		t.Errorf("headers in two buffers: %v", err)
	}
}

// An IP packet has at most 65535 bytes, and a packet may have as many segments
// as MaxSegments says.
func TestLargestSegments(t *testing.T) {
	w := newBench(t, 2048, 2048)
	for _, tt := range []struct {
		payload, size, want int
	}{
		{65495, 65495, 1}, {65496, 65496, 0}, {130990, 65495, 2}, {131072, 65535, 0},
		{MaxSegments * 100, 100, MaxSegments}, {MaxSegments*100 + 1, 100, 0},
	} {
		b := tcp4(t, w, tt.payload, tt.size)
		segments, err := w.Segment(b, w.cache, 0)
		if len(segments) != tt.want || (err == nil) != (tt.want > 0) {
			t.Errorf("%d bytes in segments of %d: %d of them, want %d: %v", tt.payload, tt.size, len(segments), tt.want, err)
		}
		w.cache.Put(segments)
		b.Free()
	}
	w.whole(t)
}

// Where buffers are short by one, none is taken.
func TestSegmentsWithoutBuffers(t *testing.T) {
	w := newBench(t, 64, 2048)
	b := tcp4(t, w, 20*100, 100)
	var held []*mbuf.Buf
	for w.pool.Free() > 19 {
		held = append(held, w.pool.Get())
	}
	for range 3 {
		if segments, err := w.Segment(b, w.cache, 0); !errors.Is(err, ErrNoBufs) || segments != nil {
			t.Fatalf("%d segments of 19 buffers: %v", len(segments), err)
		}
		if w.cache.Flush(); w.pool.Free() != 19 {
			t.Fatalf("%d of 19 buffers are back", w.pool.Free())
		}
	}
	held[0].Free()
	segments, err := w.Segment(b, w.cache, 0)
	if err != nil || len(segments) != 20 {
		t.Errorf("%d segments of 20 buffers: %v", len(segments), err)
	}
	w.cache.Put(segments)
	w.cache.Put(held[1:])
	b.Free()
	w.whole(t)
}

func TestSegmentDoesNotAllocate(t *testing.T) {
	w := newBench(t, 512, 2048)
	b := tcp4(t, w, 60000, 1448)
	defer b.Free()
	cut := func() {
		segments, err := w.Segment(b, w.cache, 0)
		if err != nil || len(segments) != 42 {
			t.Fatalf("%d segments: %v", len(segments), err)
		}
		w.cache.Put(segments)
	}
	if n := testing.AllocsPerRun(100, cut); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// Whatever the headers say, the payload comes out as it went in, and no buffer
// is lost.
func FuzzSegment(f *testing.F) {
	f.Add([]byte("no headers"), uint16(14), uint16(20), uint16(20), uint16(100), uint32(mbuf.TxTSO|mbuf.TxIPv4), uint16(64))
	tcp := append(unhex(f, `
		020000000002 020000000001 0800 4500 0000 0000 4000 4006 0000 0a000001 0a000002
		1234 0050 00000000 00000000 5010 0100 0000 0000`), "some payload"...)
	f.Add(tcp, uint16(14), uint16(20), uint16(20), uint16(5), uint32(mbuf.TxTSO|mbuf.TxIPv4|mbuf.TxVLAN), uint16(60))
	udp := append(unhex(f, `
		020000000002 020000000001 86dd 60000000 0000 1140
		20010db8000000000000000000000001 20010db8000000000000000000000002
		1234 0050 0000 0000`), "some payload"...)
	f.Add(udp, uint16(14), uint16(40), uint16(8), uint16(4), uint32(mbuf.TxUSO|mbuf.TxIPv6), uint16(70))
	w := newBench(f, 2048, 256)
	f.Fuzz(func(t *testing.T, frame []byte, l2, l3, l4, size uint16, flags uint32, first uint16) {
		if len(frame) == 0 || len(frame) > 4096 {
			return
		}
		b := w.packet(t, frame, min(max(int(first), 1), 256))
		b.Flags, b.L2Len, b.L3Len, b.L4Len, b.SegSize = mbuf.Flags(flags), l2, l3, l4, size
		segments, err := w.Segment(b, w.cache, 0)
		headers := int(l2) + int(l3) + int(l4)
		var payload []byte
		for _, s := range segments {
			got := bytesOf(s)
			if len(got) != s.PacketLen() || len(got) < headers || len(got) > headers+int(size) {
				t.Fatalf("a segment of %d bytes, %d in buffers", s.PacketLen(), len(got))
			}
			payload = append(payload, got[headers:]...)
		}
		if err == nil && !bytes.Equal(payload, frame[headers:]) {
			t.Errorf("payload %x, want %x", payload, frame[headers:])
		}
		if !bytes.Equal(bytesOf(b), frame) {
			t.Errorf("the packet itself was changed")
		}
		w.cache.Put(segments)
		b.Free()
		w.whole(t)
	})
}

func BenchmarkSegment(b *testing.B) {
	w := newBench(b, 512, 2048)
	large := tcp4(b, w, 60000, 1448)
	b.SetBytes(60000)
	for b.Loop() {
		segments, err := w.Segment(large, w.cache, 0)
		if err != nil {
			b.Fatal(err)
		}
		w.cache.Put(segments)
	}
}
