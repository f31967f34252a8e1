package driver_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// gate is a transmit queue that lets through what the test says.
type gate struct {
	takes   []int // how many packets the next bursts take; then all
	offered []int // packets of each burst
	first   []**mbuf.Buf
	took    []*mbuf.Buf // taken, in order, and not freed yet
	err     error
}

func (g *gate) Burst(pkts []*mbuf.Buf) int {
	g.offered = append(g.offered, len(pkts))
	g.first = append(g.first, &pkts[0])
	n := len(pkts)
	if len(g.takes) > 0 {
		n, g.takes = min(n, g.takes[0]), g.takes[1:]
	}
	g.took = append(g.took, pkts[:n]...)
	return n
}

func (g *gate) Reclaim() int {
	n := len(g.took)
	for _, b := range g.took {
		b.Free()
	}
	g.took = nil
	return n
}

func (g *gate) UseCache(*mbuf.Cache) {}
func (g *gate) Err() error           { return g.err }

// buffers gives a pool, all of which must be back at the test's end.
func newBuffers(t testing.TB, count int) *mbuf.Pool {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + 4096, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if free := pool.Free(); free != pool.Size() {
			t.Errorf("%d of %d buffers are back", free, pool.Size())
		}
	})
	return pool
}

// take takes n buffers.
func take(pool *mbuf.Pool, n int) []*mbuf.Buf {
	pkts := make([]*mbuf.Buf, n)
	for i := range pkts {
		pkts[i] = pool.Get()
	}
	return pkts
}

func newTxBuffer(t testing.TB, q port.TxQueue, cfg driver.TxBufferConfig) *driver.TxBuffer {
	t.Helper()
	b, err := driver.NewTxBuffer(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTxBufferSendsFullBursts(t *testing.T) {
	for _, tt := range []struct {
		size    int
		batches []int
		offered []int // to the queue
		waiting int
		past    bool // the last burst goes past the buffer
	}{
		{4, []int{1, 2}, nil, 3, false},
		{4, []int{1, 2, 1}, []int{4}, 0, false},
		{4, []int{3, 3}, []int{4}, 2, false},
		{4, []int{4}, []int{4}, 0, true},
		{4, []int{9}, []int{9}, 0, true},
		{4, []int{1, 9}, []int{4, 6}, 0, true},
		{4, []int{1, 6}, []int{4}, 3, false},
		{4, []int{3, 1, 5}, []int{4, 5}, 0, true},
		{1, []int{1, 1, 3}, []int{1, 1, 3}, 0, true},
		{4, []int{0}, nil, 0, false},
	} {
		pool := newBuffers(t, 32)
		g := &gate{}
		b := newTxBuffer(t, g, driver.TxBufferConfig{Size: tt.size})
		var sent, last []*mbuf.Buf
		for _, n := range tt.batches {
			last = take(pool, n)
			sent = append(sent, last...)
			if got := b.Burst(last); got != n {
				t.Errorf("size %d, batches %v: took %d of %d", tt.size, tt.batches, got, n)
			}
		}
		if diff := cmp.Diff(tt.offered, g.offered); diff != "" || b.Waiting() != tt.waiting {
			t.Errorf("size %d, batches %v: %d wait, bursts (-want +got)\n%s", tt.size, tt.batches, b.Waiting(), diff)
		}
		past := false
		for i := range last {
			past = past || len(g.first) > 0 && g.first[len(g.first)-1] == &last[i]
		}
		if past != tt.past {
			t.Errorf("size %d, batches %v: the last burst went past the buffer: %v", tt.size, tt.batches, past)
		}
		want := driver.TxBufferStats{Full: uint64(len(tt.offered)), Packets: uint64(len(sent) - tt.waiting)}
		if got := b.Stats(); got != want {
			t.Errorf("size %d, batches %v: counted %+v, want %+v", tt.size, tt.batches, got, want)
		}
		b.Close()
		if !slices.Equal(g.took, sent) {
			t.Errorf("size %d, batches %v: another order", tt.size, tt.batches)
		}
		g.Reclaim()
	}
}

func TestTxBufferRefusesBadConfigurations(t *testing.T) {
	for _, tt := range []struct {
		cfg  driver.TxBufferConfig
		says string // "": is accepted
	}{
		{driver.TxBufferConfig{}, "size 0: must be 1 to 32768 packets"},
		{driver.TxBufferConfig{Size: -1}, "size -1: must be 1 to"},
		{driver.TxBufferConfig{Size: 1}, ""},
		{driver.TxBufferConfig{Size: 32768}, ""},
		{driver.TxBufferConfig{Size: 32769}, "size 32769: must be 1 to 32768"},
		{driver.TxBufferConfig{Size: 64, Desc: 64}, ""},
		{driver.TxBufferConfig{Size: 65, Desc: 64}, "size 65: must be 1 to 64 packets, as many as the queue has descriptors"},
		{driver.TxBufferConfig{Size: 1, Drain: -1}, "drain time -1ns: must not be negative"},
		{driver.TxBufferConfig{Size: 1, Retries: -1}, "-1 retries: must not be negative"},
	} {
		_, err := driver.NewTxBuffer(&gate{}, tt.cfg)
		_, shared := driver.NewSharedTxBuffer(&gate{}, tt.cfg)
		for _, err := range []error{err, shared} {
			if tt.says == "" && err != nil || tt.says != "" && (!errors.Is(err, port.ErrInvalid) || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%+v: %v, want %q", tt.cfg, err, tt.says)
			}
		}
	}
}

func TestTxBufferRetriesAndGivesUp(t *testing.T) {
	for _, tt := range []struct {
		retries int
		takes   []int
		offered []int
		want    driver.TxBufferStats
	}{
		{0, nil, []int{8}, driver.TxBufferStats{Full: 1, Packets: 8}},
		{0, []int{5}, []int{8}, driver.TxBufferStats{Full: 1, Packets: 5, Dropped: 3}},
		{0, []int{0}, []int{8}, driver.TxBufferStats{Full: 1, Dropped: 8}},
		{1, []int{5}, []int{8, 3}, driver.TxBufferStats{Full: 1, Packets: 8, Retries: 1}},
		{3, []int{1, 0, 2, 1}, []int{8, 7, 7, 5}, driver.TxBufferStats{Full: 1, Packets: 4, Dropped: 4, Retries: 3}},
		{5, []int{7, 1}, []int{8, 1}, driver.TxBufferStats{Full: 1, Packets: 8, Retries: 1}},
	} {
		for _, kept := range []bool{false, true} {
			pool := newBuffers(t, 128)
			g := &gate{takes: tt.takes}
			cfg := driver.TxBufferConfig{Size: 8, Retries: tt.retries}
			var unsent []*mbuf.Buf
			if kept {
				cfg.Unsent = func(pkts []*mbuf.Buf) { unsent = append(unsent, pkts...) }
			}
			b := newTxBuffer(t, g, cfg)
			cache := pool.NewCache(0)
			b.UseCache(cache)
			pkts := take(pool, 8)
			b.Burst(pkts[:3])
			b.Burst(pkts[3:])
			if got := b.Stats(); got != tt.want {
				t.Errorf("%+v: counted %+v", tt, got)
			}
			if diff := cmp.Diff(tt.offered, g.offered); diff != "" {
				t.Errorf("%+v: (-want +got)\n%s", tt, diff)
			}
			if kept && !slices.Equal(slices.Concat(g.took, unsent), pkts) {
				t.Errorf("%+v: %d sent and %d unsent are not what was given", tt, len(g.took), len(unsent))
			}
			if free := pool.Free(); free != pool.Size()-len(pkts) {
				t.Errorf("%+v: %d buffers in the pool: some went past the cache", tt, free)
			}
			for _, p := range unsent {
				p.Free()
			}
			g.Reclaim()
			cache.Flush()
		}
	}
}

func TestTxBufferDrainsByTime(t *testing.T) {
	const ms = time.Millisecond
	pool := newBuffers(t, 32)
	g := &gate{}
	b := newTxBuffer(t, g, driver.TxBufferConfig{Size: 4, Drain: 10 * ms})
	for i, step := range []struct {
		now  time.Duration
		add  int // before the call
		sent int // by the call
	}{
		{5 * ms, 0, 0},
		{100 * ms, 1, 0}, // its time begins here
		{109 * ms, 1, 0},
		{110 * ms, 0, 2}, // the first has waited for 10 ms
		{120 * ms, 0, 0},
		{130 * ms, 3, 0},
		{139 * ms, 3, 0}, // four went, and the time of the other two begins
		{148 * ms, 0, 0},
		{149 * ms, 0, 2},
	} {
		b.Burst(take(pool, step.add))
		if got := b.Poll(step.now); got != step.sent {
			t.Errorf("step %d at %v: %d sent, want %d", i, step.now, got, step.sent)
		}
	}
	if got, want := b.Stats(), (driver.TxBufferStats{Full: 1, Late: 2, Packets: 8}); got != want || got.Flushes() != 3 || got.PerFlush() != 8.0/3 {
		t.Errorf("counted %+v, %d flushes of %.2f packets; want %+v", got, got.Flushes(), got.PerFlush(), want)
	}
	b.ResetStats()
	if got := b.Stats(); got != (driver.TxBufferStats{}) || got.PerFlush() != 0 {
		t.Errorf("after ResetStats: %+v", got)
	}
	g.Reclaim()

	at0 := newTxBuffer(t, g, driver.TxBufferConfig{Size: 4})
	at0.Burst(take(pool, 3))
	if got := at0.Poll(7 * ms); got != 3 {
		t.Errorf("without a time to wait the first Poll sent %d of 3", got)
	}
	at0.Burst(take(pool, 2))
	if got := at0.Flush() + at0.Flush(); got != 2 || at0.Stats().Asked != 1 {
		t.Errorf("two calls of Flush sent %d and counted %+v; want 2 and one", got, at0.Stats())
	}
	g.Reclaim()
}

func TestTxBufferEndsWithClose(t *testing.T) {
	pool := newBuffers(t, 16)
	g := &gate{takes: []int{2}, err: errors.New("broken")}
	b := newTxBuffer(t, g, driver.TxBufferConfig{Size: 8})
	b.Burst(take(pool, 5))
	if err := b.Err(); err != g.err {
		t.Errorf("Err = %v, want that of the queue", err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, want := b.Stats(), (driver.TxBufferStats{Asked: 1, Packets: 2, Dropped: 3}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	late := take(pool, 9)
	if n := b.Burst(late) + b.Burst(late[:1]) + b.Poll(time.Hour) + b.Flush(); n != 0 || !errors.Is(b.Err(), port.ErrClosed) {
		t.Errorf("after Close %d packets moved, and Err = %v", n, b.Err())
	}
	if n := b.Reclaim(); n != 0 {
		t.Errorf("after Close Reclaim freed %d", n)
	}
	for _, p := range late {
		p.Free()
	}
	g.Reclaim()
}

func TestTxBufferDoesNotAllocate(t *testing.T) {
	pool := newBuffers(t, 256)
	sink := &swallow{}
	b := newTxBuffer(t, sink, driver.TxBufferConfig{Size: 32, Drain: time.Microsecond, Retries: 2})
	cache := pool.NewCache(64)
	b.UseCache(cache)
	pkts := make([]*mbuf.Buf, 40)
	now := time.Duration(0)
	allocs := testing.AllocsPerRun(1000, func() {
		for _, n := range []int{1, 7, 2, 40, 30} {
			b.Burst(pkts[:cache.Get(pkts[:n])])
		}
		b.Poll(now)
		now += time.Millisecond
		sink.full = !sink.full
		b.Poll(now)
	})
	if allocs != 0 {
		t.Errorf("%v allocations a round", allocs)
	}
	if s := b.Stats(); s.Full == 0 || s.Late == 0 || s.Dropped == 0 || s.Packets == 0 {
		t.Errorf("not everything was tried: %+v", s)
	}
	b.Close()
	cache.Flush()
}

// swallow is a transmit queue that frees what it takes at once.
type swallow struct {
	cache *mbuf.Cache
	full  bool // it takes nothing
}

func (q *swallow) Burst(pkts []*mbuf.Buf) int {
	if q.full {
		return 0
	}
	q.cache.Put(pkts)
	return len(pkts)
}

func (q *swallow) Reclaim() int           { return 0 }
func (q *swallow) UseCache(c *mbuf.Cache) { q.cache = c }
func (q *swallow) Err() error             { return nil }
