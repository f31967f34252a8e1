package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/mbuf"
	"vionet/port"
)

// script is a receive queue that delivers the frames it was given, cut into
// segments of segSize bytes if that is not 0.
type script struct {
	cache   *mbuf.Cache
	frames  [][]byte
	segSize int
}

func (q *script) Burst(bufs []*mbuf.Buf) int {
	n := min(len(bufs), len(q.frames))
	for i, frame := range q.frames[:n] {
		bufs[i] = q.packet(frame)
	}
	q.frames = q.frames[n:]
	return n
}

func (q *script) packet(frame []byte) *mbuf.Buf {
	var head *mbuf.Buf
	for len(frame) > 0 || head == nil {
		piece := len(frame)
		if q.segSize > 0 {
			piece = min(piece, q.segSize)
		}
		b := q.cache.Pool().Get()
		copy(b.Append(piece), frame)
		frame = frame[piece:]
		if head == nil {
			head = b
		} else {
			head.Chain(b)
		}
	}
	return head
}

func (q *script) UseCache(c *mbuf.Cache)     { q.cache = c }
func (q *script) Wait(context.Context) error { return nil }
func (q *script) Err() error                 { return nil }

// sent is a packet as the transmit queue saw it.
type sent struct {
	Bytes               []byte
	Segments            int
	Flags               mbuf.Flags
	L2, L3, L4, SegSize uint16
	VLAN                uint16
}

// sink is a transmit queue that takes up to room packets and keeps a record.
type sink struct {
	cache     *mbuf.Cache
	room      int
	sent      []sent
	quiet     bool // keep no record
	longest   int  // burst that was offered, in packets
	reclaimed int
}

func (q *sink) Burst(bufs []*mbuf.Buf) int {
	n := min(len(bufs), q.room)
	q.room -= n
	q.longest = max(q.longest, len(bufs))
	if q.quiet {
		q.cache.Put(bufs[:n])
		return n
	}
	for _, b := range bufs[:n] {
		rec := sent{Segments: b.Segments(), Flags: b.Flags, L2: b.L2Len, L3: b.L3Len, L4: b.L4Len, SegSize: b.SegSize, VLAN: b.VLAN}
		for seg := b; seg != nil; seg = seg.Next() {
			rec.Bytes = append(rec.Bytes, seg.Bytes()...)
		}
		q.sent = append(q.sent, rec)
	}
	q.cache.Put(bufs[:n])
	return n
}

func (q *sink) Reclaim() int               { q.reclaimed++; return 0 }
func (q *sink) UseCache(c *mbuf.Cache)     { q.cache = c }
func (q *sink) Wait(context.Context) error { return nil }
func (q *sink) Err() error                 { return nil }

// rig is a stream between a script and a sink.
type rig struct {
	*Stream
	rx   *script
	tx   *sink
	pool *mbuf.Pool
}

func newRig(t testing.TB, cfg StreamConfig, frames ...[]byte) *rig {
	t.Helper()
	const count = 512
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + 4096, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{rx: &script{frames: frames}, tx: &sink{room: 1 << 30}, pool: pool}
	cfg.Rx, cfg.Tx = r.rx, r.tx
	cfg.Source = [6]byte{2, 0, 0, 0, 0xaa, 1}
	cfg.Peer = [6]byte{2, 0, 0, 0, 0, 7}
	if cfg.Burst == 0 {
		cfg.Burst = 32
	}
	if cfg.TxSegs == nil {
		cfg.TxSegs = []int{DefaultTxLen}
	}
	r.Stream = NewStream(cfg)
	r.UseCache(pool.NewCache(0))
	return r
}

// accounted checks that every buffer is back in the pool.
func (r *rig) accounted(t testing.TB) {
	t.Helper()
	r.cache.Flush()
	if r.pool.Free() != r.pool.Size() {
		t.Errorf("%d of %d buffers are back", r.pool.Free(), r.pool.Size())
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTxOnlyWritesEveryHeader(t *testing.T) {
	// 50 bytes of IPv4: 45 00 0032 0000 0000 40 11 cksum c6120001 c6120002.
	// Sum 4500+0032+4011+c612+0001+c612+0002 = 2116a -> 116c, complement
	// ee93.
	want := unhex(t, `020000000007 02000000aa01 0800
		4500 0032 0000 0000 4011 ee93 c6120001 c6120002
		0009 0009 001e 0000`)
	for _, segs := range [][]int{{64}, {20, 44}, {10, 10, 10, 34}, {42, 22}} {
		r := newRig(t, StreamConfig{TxSegs: segs})
		for round := range 3 {
			if n := TxOnly.Forward(r.Stream); n != 32 {
				t.Fatalf("segments %v: burst of %d", segs, n)
			}
			for _, p := range r.tx.sent {
				if !bytes.Equal(p.Bytes[:42], want) || len(p.Bytes) != 64 || p.Segments != len(segs) || p.Flags != 0 {
					t.Fatalf("segments %v, round %d: %d bytes in %d segments: %x", segs, round, len(p.Bytes), p.Segments, p.Bytes)
				}
			}
			// Buffers are used again: what stood in them must not stay.
			b := make([]*mbuf.Buf, 256)
			for _, dirty := range b[:r.cache.Get(b)] {
				dirty.Reset()
				clear(dirty.Append(dirty.Tailroom()))
			}
			r.cache.Put(b)
			r.tx.sent = nil
		}
		if got := r.TxPackets.Load(); got != 96 {
			t.Errorf("segments %v: counted %d, want 96", segs, got)
		}
		r.accounted(t)
	}
}

func TestTxOnlyWithoutBuffersReclaims(t *testing.T) {
	r := newRig(t, StreamConfig{})
	held := make([]*mbuf.Buf, 0, r.pool.Size())
	for b := r.pool.Get(); b != nil; b = r.pool.Get() {
		held = append(held, b)
	}
	if n := TxOnly.Forward(r.Stream); n != 0 || r.tx.reclaimed != 1 {
		t.Errorf("sent %d, reclaimed %d times; want 0 and 1", n, r.tx.reclaimed)
	}
	for _, b := range held {
		b.Free()
	}
	r.accounted(t)
}

func TestTxOnlyWithFewBuffersForChains(t *testing.T) {
	r := newRig(t, StreamConfig{TxSegs: []int{64, 64, 64}})
	var held []*mbuf.Buf
	for r.pool.Free() > 40 { // 32 heads, and 8 that make 4 tails of 2
		held = append(held, r.pool.Get())
	}
	if n := TxOnly.Forward(r.Stream); n != 4 || len(r.tx.sent) != 4 || r.tx.sent[3].Segments != 3 {
		t.Errorf("sent %d: %+v", n, r.tx.sent)
	}
	for _, b := range held {
		b.Free()
	}
	r.accounted(t)
}

func TestAddressing(t *testing.T) {
	frame := unhex(t, `0a0000000001 0a0000000002 0800 4500`)
	short := []byte{1, 2, 3}
	for _, tt := range []struct {
		engine *Engine
		want   string
	}{
		{IO, `0a0000000001 0a0000000002 0800 4500`},
		{MAC, `020000000007 02000000aa01 0800 4500`},
		{MACSwap, `0a0000000002 0a0000000001 0800 4500`},
		{Csum, `020000000007 02000000aa01 0800 4500`},
	} {
		r := newRig(t, StreamConfig{}, frame, short)
		if n := tt.engine.Forward(r.Stream); n != 2 {
			t.Fatalf("%s: %d packets", tt.engine.Name, n)
		}
		got := [][]byte{r.tx.sent[0].Bytes, r.tx.sent[1].Bytes}
		if diff := cmp.Diff([][]byte{unhex(t, tt.want), short}, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.engine.Name, diff)
		}
		if r.RxPackets.Load() != 2 || r.TxPackets.Load() != 2 || r.TxDropped.Load() != 0 {
			t.Errorf("%s: counted %d %d %d", tt.engine.Name, r.RxPackets.Load(), r.TxPackets.Load(), r.TxDropped.Load())
		}
		r.accounted(t)
	}
}

func TestVLANInsertIsRequested(t *testing.T) {
	for _, e := range []*Engine{MAC, TxOnly} {
		r := newRig(t, StreamConfig{Burst: 1, TxOffloads: port.TxVLANInsert, VLAN: 0x2005}, make([]byte, 60))
		e.Forward(r.Stream)
		if p := r.tx.sent[0]; p.Flags != mbuf.TxVLAN || p.VLAN != 0x2005 {
			t.Errorf("%s: %+v", e.Name, p)
		}
	}
}

func TestRxOnlyFrees(t *testing.T) {
	r := newRig(t, StreamConfig{}, make([]byte, 60), make([]byte, 3000))
	r.rx.segSize = 1000
	if n := RxOnly.Forward(r.Stream); n != 2 || len(r.tx.sent) != 0 {
		t.Errorf("received %d, sent %d", n, len(r.tx.sent))
	}
	r.accounted(t)
}

func TestWhatIsNotTakenIsDroppedAndCounted(t *testing.T) {
	frames := make([][]byte, 10)
	for i := range frames {
		frames[i] = make([]byte, 60)
	}
	r := newRig(t, StreamConfig{Retries: 3}, frames...)
	r.tx.room = 4
	IO.Forward(r.Stream)
	if r.TxPackets.Load() != 4 || r.TxDropped.Load() != 6 {
		t.Errorf("sent %d, dropped %d; want 4 and 6", r.TxPackets.Load(), r.TxDropped.Load())
	}
	r.accounted(t)
}

func TestDrainIsBounded(t *testing.T) {
	r := newRig(t, StreamConfig{Burst: 8}, make([][]byte, 100)...)
	r.Drain(20)
	if left := len(r.rx.frames); left != 76 {
		t.Errorf("%d frames left, want 76: three bursts of 8 gone", left)
	}
	r.Drain(1000)
	if left := len(r.rx.frames); left != 0 {
		t.Errorf("%d frames left", left)
	}
	r.accounted(t)
}

func TestNothingAllocates(t *testing.T) {
	for _, e := range All {
		for _, segs := range [][]int{{64}, {64, 200}} {
			r := newRig(t, StreamConfig{TxSegs: segs})
			r.tx.quiet = true
			r.Rx = &flood{payload: tcpFrame(t, 100)}
			r.UseCache(r.cache)
			if n := testing.AllocsPerRun(100, func() { e.Forward(r.Stream) }); n != 0 {
				t.Errorf("%s: %v allocations a burst", e.Name, n)
			}
			r.accounted(t)
		}
	}
}

// flood is a receive queue that never runs dry.
type flood struct {
	cache   *mbuf.Cache
	payload []byte
}

func (q *flood) Burst(bufs []*mbuf.Buf) int {
	n := q.cache.Get(bufs)
	for _, b := range bufs[:n] {
		b.Reset()
		copy(b.Append(len(q.payload)), q.payload)
	}
	return n
}
func (q *flood) UseCache(c *mbuf.Cache)     { q.cache = c }
func (q *flood) Wait(context.Context) error { return nil }
func (q *flood) Err() error                 { return nil }

func tcpFrame(t testing.TB, payload int) []byte {
	head := unhex(t, `0a0000000001 0a0000000002 0800
		4500 0000 0001 0000 4006 0000 0a000001 0a000002
		1234 0050 00000001 00000000 5010 ffff dead 0000`)
	frame := append(head, make([]byte, payload)...)
	for i := range payload {
		frame[len(head)+i] = byte(i)
	}
	binary.BigEndian.PutUint16(frame[16:], uint16(len(frame)-14))
	return frame
}

// slowSum adds 16-bit words one by one.
func slowSum(b []byte) uint16 {
	var sum uint32
	for i, v := range b {
		if i%2 == 0 {
			sum += uint32(v) << 8
		} else {
			sum += uint32(v)
		}
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

func BenchmarkForward(b *testing.B) {
	for _, e := range All {
		b.Run(e.Name, func(b *testing.B) {
			r := newRig(b, StreamConfig{})
			r.tx.quiet, r.tx.room = true, 1<<62
			r.Rx = &flood{payload: tcpFrame(b, 10)}
			r.UseCache(r.cache)
			packets := 0
			for b.Loop() {
				packets += e.Forward(r.Stream)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
		})
	}
}
