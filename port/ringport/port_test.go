package ringport_test

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"vionet/mbuf"
	"vionet/port"
	"vionet/port/ringport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t testing.TB, count int) *mbuf.Pool {
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
	return pool
}

func start(t testing.TB, p port.Port, c port.Config) port.Port {
	t.Helper()
	t.Cleanup(func() { p.Close() })
	if err := errors.Join(p.Configure(c), p.Start()); err != nil {
		t.Fatal(err)
	}
	return p
}

func pair(t testing.TB, size int, a, b port.Config) (port.Port, port.Port) {
	t.Helper()
	p, q, err := ringport.NewPair("net_ring0", "net_ring1", size)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, p, a), start(t, q, b)
}

// fill makes packets of four bytes each, numbered from first on.
func fill(t testing.TB, pool *mbuf.Pool, bufs []*mbuf.Buf, first int) {
	t.Helper()
	for i := range bufs {
		b := pool.Get()
		if b == nil {
			t.Fatal("the pool is empty")
		}
		binary.BigEndian.PutUint32(b.Append(4), uint32(first+i))
		bufs[i] = b
	}
}

func number(b *mbuf.Buf) int { return int(binary.BigEndian.Uint32(b.Bytes())) }

func free(bufs []*mbuf.Buf) {
	for _, b := range bufs {
		b.Free()
	}
}

func allBack(t testing.TB, pools ...*mbuf.Pool) {
	t.Helper()
	for _, pool := range pools {
		if pool.Free() != pool.Size() {
			t.Errorf("%d of %d buffers are back", pool.Free(), pool.Size())
		}
	}
}

func TestBuffersChangeHands(t *testing.T) {
	poolA, poolB := newPool(t, 64), newPool(t, 64)
	a, b := pair(t, 0, port.Config{Pool: poolA}, port.Config{Pool: poolB})
	for _, way := range []struct {
		from, to port.Port
		pool     *mbuf.Pool
	}{{a, b, poolA}, {b, a, poolB}} {
		sent, got := make([]*mbuf.Buf, 5), make([]*mbuf.Buf, 8)
		fill(t, way.pool, sent, 0)
		tail := way.pool.Get()
		tail.Append(10)
		sent[3].Chain(tail)
		sent[4].Flags = mbuf.RxL4Good
		if n := way.from.TxQueue(0).Burst(sent); n != 5 {
			t.Fatalf("%d of 5 taken", n)
		}
		if n := way.to.RxQueue(0).Burst(got); n != 5 {
			t.Fatalf("%d of 5 received", n)
		}
		for i, b := range sent {
			if got[i] != b || number(b) != i || b.Flags != 0 {
				t.Errorf("packet %d: %p, want %p; number %d, flags %x", i, got[i], b, number(b), b.Flags)
			}
		}
		if got[3].PacketLen() != 14 || got[3].Segments() != 2 {
			t.Errorf("chain of %d bytes in %d segments", got[3].PacketLen(), got[3].Segments())
		}
		want := port.QueueStats{Packets: 5, Bytes: 30}
		if s := way.from.Stats(); s.Tx[0] != want || s.TxPackets != 5 || s.TxBytes != 30 {
			t.Errorf("sender: %+v", s)
		}
		if s := way.to.Stats(); s.Rx[0] != want || s.RxPackets != 5 || s.RxBytes != 30 {
			t.Errorf("receiver: %+v", s)
		}
		free(got[:5])
	}
	allBack(t, poolA, poolB)
	a.ResetStats()
	if s := a.Stats(); s.RxPackets != 0 || s.TxBytes != 0 {
		t.Errorf("after the reset: %+v", s)
	}
}

func TestFullRingTakesNoMore(t *testing.T) {
	pool := newPool(t, 64)
	p, err := ringport.New(ringport.Config{Size: 5}) // rounded up to 8
	if err != nil {
		t.Fatal(err)
	}
	start(t, p, port.Config{Pool: pool})
	bufs := make([]*mbuf.Buf, 10)
	fill(t, pool, bufs, 0)
	if n := p.TxQueue(0).Burst(bufs); n != 8 {
		t.Fatalf("%d of 10 taken, want 8", n)
	}
	if n := p.TxQueue(0).Burst(bufs[8:]); n != 0 {
		t.Fatalf("%d taken by a full ring", n)
	}
	got := make([]*mbuf.Buf, 1)
	if n := p.RxQueue(0).Burst(got); n != 1 || got[0] != bufs[0] {
		t.Fatalf("%d received", n)
	}
	got[0].Free()
	if n := p.TxQueue(0).Burst(bufs[8:]); n != 1 {
		t.Fatalf("%d taken, want 1", n)
	}
	bufs[9].Free()
	p.Stop()
	allBack(t, pool)
	if s := p.Stats(); s.TxPackets != 9 || s.RxPackets != 1 || s.TxErrors != 0 {
		t.Errorf("%+v", s)
	}
}

func TestOffloadsAreErrors(t *testing.T) {
	pool := newPool(t, 64)
	p, err := ringport.New(ringport.Config{Name: "net_ring3"})
	if err != nil {
		t.Fatal(err)
	}
	start(t, p, port.Config{Pool: pool})
	bufs := make([]*mbuf.Buf, 4)
	fill(t, pool, bufs, 0)
	bufs[0].Flags, bufs[2].Flags = mbuf.TxTCPChecksum, mbuf.TxVLAN
	if n := p.TxQueue(0).Burst(bufs); n != 4 {
		t.Fatalf("%d of 4 taken", n)
	}
	got := make([]*mbuf.Buf, 4)
	if n := p.RxQueue(0).Burst(got); n != 2 || number(got[0]) != 1 || number(got[1]) != 3 {
		t.Errorf("%d received, want 1 and 3", n)
	}
	free(got[:2])
	if s := p.Stats(); s.TxErrors != 2 || s.Tx[0].Errors != 2 || s.TxPackets != 2 {
		t.Errorf("%+v", s)
	}
	allBack(t, pool)
}

// TestUnequalQueues: every lane is read, whatever the numbers of queues are.
func TestUnequalQueues(t *testing.T) {
	for _, n := range []struct{ tx, rx int }{{1, 1}, {1, 3}, {3, 1}, {4, 3}, {16, 5}, {2, 16}} {
		pool := newPool(t, 128)
		a, b := pair(t, 64, port.Config{Pool: pool, TxQueues: n.tx}, port.Config{Pool: pool, RxQueues: n.rx})
		for i := range n.tx {
			bufs := make([]*mbuf.Buf, 2)
			fill(t, pool, bufs, i)
			bufs[1].Append(1)
			a.TxQueue(i).Burst(bufs)
		}
		for i := range n.rx {
			want := (n.tx - i + n.rx - 1) / n.rx * 2
			got := make([]*mbuf.Buf, 64)
			if k := b.RxQueue(i).Burst(got); k != max(want, 0) {
				t.Errorf("%+v: queue %d received %d, want %d", n, i, k, want)
			} else {
				for _, p := range got[:k] {
					if p.Len() == 4 && number(p)%n.rx != i {
						t.Errorf("%+v: queue %d received of queue %d", n, i, number(p))
					}
				}
				free(got[:k])
			}
		}
		allBack(t, pool)
	}
}

// TestNoLaneStarves: a burst smaller than what one lane holds comes from all in
// turn.
func TestNoLaneStarves(t *testing.T) {
	pool := newPool(t, 64)
	a, b := pair(t, 16, port.Config{Pool: pool, TxQueues: 3}, port.Config{Pool: pool})
	for i := range 3 {
		bufs := make([]*mbuf.Buf, 8)
		fill(t, pool, bufs, 100*i)
		a.TxQueue(i).Burst(bufs)
	}
	seen := map[int]int{}
	got := make([]*mbuf.Buf, 4)
	for range 3 {
		n := b.RxQueue(0).Burst(got)
		for _, p := range got[:n] {
			seen[number(p)/100]++
		}
		free(got[:n])
	}
	if seen[0] != 4 || seen[1] != 4 || seen[2] != 4 {
		t.Errorf("packets of each lane: %v, want 4 of each", seen)
	}
}

func TestStopFreesWhatIsUnderWay(t *testing.T) {
	pool := newPool(t, 256)
	send := func(p port.Port, n int) {
		t.Helper()
		bufs := make([]*mbuf.Buf, n)
		fill(t, pool, bufs, 0)
		if k := p.TxQueue(0).Burst(bufs); k != n {
			t.Fatalf("%d of %d taken", k, n)
		}
	}
	held := func(want int) {
		t.Helper()
		if n := pool.Size() - pool.Free(); n != want {
			t.Errorf("%d buffers are out, want %d", n, want)
		}
	}
	a, b := pair(t, 0, port.Config{Pool: pool}, port.Config{Pool: pool})
	send(a, 10)
	send(b, 20)
	a.Stop() // frees those to a; those to b are b's to receive
	held(10)
	got := make([]*mbuf.Buf, 32)
	if n := b.RxQueue(0).Burst(got); n != 10 {
		t.Errorf("%d received of a stopped port, want 10", n)
	} else {
		free(got[:n])
	}
	send(b, 5) // they wait for a
	held(5)
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	if n := a.RxQueue(0).Burst(got); n != 5 {
		t.Errorf("%d received after the start, want 5", n)
	} else {
		free(got[:n])
	}
	send(a, 7)
	b.Close() // frees those to b
	held(0)
	send(a, 3) // nobody will receive these
	held(3)
	a.Stop()
	held(0)
	allBack(t, pool)
}

func TestLink(t *testing.T) {
	pool := newPool(t, 16)
	a, b, err := ringport.NewPair("x", "y", 8)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan port.Event, 4)
	a.Notify(func(e port.Event) { events <- e })
	expect := func(up bool) {
		t.Helper()
		select {
		case e := <-events:
			if e != port.LinkChange {
				t.Errorf("event %d", e)
			}
		case <-time.After(10 * time.Second):
			t.Error("no event")
		}
		if a.Link().Up != up {
			t.Errorf("link up: %v", !up)
		}
	}
	start(t, a, port.Config{Pool: pool})
	if a.Link().Up {
		t.Error("up without the other")
	}
	start(t, b, port.Config{Pool: pool})
	expect(true)
	if l := b.Link(); !l.Up || l.Speed != 10000 {
		t.Errorf("%+v", l)
	}
	b.Stop()
	expect(false)
	a.Close()
	b.Close()
}

func TestWait(t *testing.T) {
	pool := newPool(t, 16)
	a, b := pair(t, 8, port.Config{Pool: pool}, port.Config{Pool: pool, RxInterrupts: true})
	if err := a.RxQueue(0).Wait(t.Context()); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("without interrupts: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := b.RxQueue(0).Wait(ctx); !errors.Is(err, enough) {
		t.Errorf("cancelled: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		got := make([]*mbuf.Buf, 4)
		for received := 0; received < 1000; {
			n := b.RxQueue(0).Burst(got)
			free(got[:n])
			received += n
			if n == 0 {
				if err := b.RxQueue(0).Wait(ctx); err != nil {
					t.Errorf("%d of 1000 received: %v", received, err)
					return
				}
			}
		}
	})
	for i := 0; i < 1000; {
		buf := pool.Get()
		if buf == nil || a.TxQueue(0).Burst([]*mbuf.Buf{buf}) == 0 {
			if buf != nil {
				buf.Free()
			}
			runtime.Gosched()
			continue
		}
		i++
	}
	wg.Wait()
	allBack(t, pool)
}

// TestTwoGoroutines: one sends, one receives; the order holds and nothing is
// lost.
func TestTwoGoroutines(t *testing.T) {
	const total = 20000
	pool := newPool(t, 256)
	a, b := pair(t, 32, port.Config{Pool: pool}, port.Config{Pool: pool})
	var wg sync.WaitGroup
	wg.Go(func() {
		cache := pool.NewCache(0)
		defer cache.Flush()
		got := make([]*mbuf.Buf, 17)
		for next := 0; next < total; {
			n := b.RxQueue(0).Burst(got)
			for _, p := range got[:n] {
				if number(p) != next {
					t.Errorf("packet %d, want %d", number(p), next)
				}
				next++
			}
			cache.Put(got[:n])
			if n == 0 {
				runtime.Gosched()
			}
		}
	})
	cache := pool.NewCache(0)
	bufs := make([]*mbuf.Buf, 11)
	for i := 0; i < total; {
		n := cache.Get(bufs[:min(len(bufs), total-i)])
		for k, p := range bufs[:n] {
			binary.BigEndian.PutUint32(p.Renew(4), uint32(i+k))
		}
		sent := a.TxQueue(0).Burst(bufs[:n])
		cache.Put(bufs[sent:n])
		i += sent
		if sent == 0 {
			runtime.Gosched()
		}
	}
	wg.Wait()
	cache.Flush()
	allBack(t, pool)
	if tx, rx := a.Stats(), b.Stats(); tx.TxPackets != total || rx.RxPackets != total || tx.TxBytes != 4*total || rx.RxBytes != 4*total {
		t.Errorf("sent %+v, received %+v", tx, rx)
	}
}

// TestIsAQueue: bursts of any sizes behave as a bounded queue does.
func TestIsAQueue(t *testing.T) {
	pool := newPool(t, 256)
	rapid.Check(t, func(rt *rapid.T) {
		size := 1 << rapid.IntRange(0, 5).Draw(rt, "log size")
		p, err := ringport.New(ringport.Config{Size: size})
		if err != nil {
			rt.Fatal(err)
		}
		defer p.Close()
		if err := errors.Join(p.Configure(port.Config{Pool: pool}), p.Start()); err != nil {
			rt.Fatal(err)
		}
		next, inside := 0, []int{}
		rt.Repeat(map[string]func(*rapid.T){
			"send": func(rt *rapid.T) {
				bufs := make([]*mbuf.Buf, rapid.IntRange(0, 40).Draw(rt, "burst"))
				fill(t, pool, bufs, next)
				n := p.TxQueue(0).Burst(bufs)
				if want := min(len(bufs), size-len(inside)); n != want {
					rt.Fatalf("%d of %d taken, want %d", n, len(bufs), want)
				}
				for i := range n {
					inside = append(inside, next+i)
				}
				next += n
				free(bufs[n:])
			},
			"receive": func(rt *rapid.T) {
				bufs := make([]*mbuf.Buf, rapid.IntRange(0, 40).Draw(rt, "burst"))
				n := p.RxQueue(0).Burst(bufs)
				if want := min(len(bufs), len(inside)); n != want {
					rt.Fatalf("%d received, want %d", n, want)
				}
				for i, b := range bufs[:n] {
					if number(b) != inside[i] {
						rt.Fatalf("packet %d, want %d", number(b), inside[i])
					}
				}
				inside = inside[n:]
				free(bufs[:n])
			},
			"restart": func(rt *rapid.T) {
				if err := errors.Join(p.Stop(), p.Start()); err != nil {
					rt.Fatal(err)
				}
				inside = nil
			},
			"": func(rt *rapid.T) {
				if out := pool.Size() - pool.Free(); out != len(inside) {
					rt.Fatalf("%d buffers are out, want %d", out, len(inside))
				}
			},
		})
		p.Stop()
		if pool.Free() != pool.Size() {
			rt.Fatalf("%d of %d buffers are back", pool.Free(), pool.Size())
		}
	})
}

func TestBurstsAllocateNothing(t *testing.T) {
	pool := newPool(t, 64)
	a, b := pair(t, 0, port.Config{Pool: pool}, port.Config{Pool: pool})
	bufs := make([]*mbuf.Buf, 32)
	fill(t, pool, bufs, 0)
	if n := testing.AllocsPerRun(100, func() {
		if n := a.TxQueue(0).Burst(bufs); n != 32 {
			t.Fatalf("%d taken", n)
		}
		if n := b.RxQueue(0).Burst(bufs); n != 32 {
			t.Fatalf("%d received", n)
		}
	}); n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
	free(bufs)
}

// BenchmarkBurst moves bursts of 32 from one port to the other, on one
// goroutine.
func BenchmarkBurst(b *testing.B) {
	pool := newPool(b, 64)
	p, q := pair(b, 0, port.Config{Pool: pool}, port.Config{Pool: pool})
	bufs := make([]*mbuf.Buf, 32)
	fill(b, pool, bufs, 0)
	for b.Loop() {
		p.TxQueue(0).Burst(bufs)
		q.RxQueue(0).Burst(bufs)
	}
	free(bufs)
}

func TestStates(t *testing.T) {
	pool := newPool(t, 16)
	for _, size := range []int{-1, 1<<20 + 1} {
		if _, err := ringport.New(ringport.Config{Size: size}); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("size %d: %v", size, err)
		}
	}
	if _, _, err := ringport.NewPair("x", "x", 8); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("one name for two: %v", err)
	}
	p, err := ringport.New(ringport.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if i := p.Info(); p.Name() != "net_ring0" || i.Driver != "net_ring" || i.MTU != 1500 || i.MAC[0]&3 != 2 || i.MaxRxQueues != 16 {
		t.Errorf("%+v", i)
	}
	if err := p.Start(); !errors.Is(err, port.ErrState) {
		t.Errorf("Start before Configure: %v", err)
	}
	for want, cfgs := range map[error][]port.Config{
		port.ErrInvalid:      {{}, {Pool: pool, RxQueues: 17}, {Pool: pool, TxQueues: 17}, {Pool: pool, MTU: 67}},
		port.ErrNotSupported: {{Pool: pool, RxOffloads: port.RxTCPLRO}, {Pool: pool, TxOffloads: port.TxTCPTSO}},
	} {
		for _, c := range cfgs {
			if err := p.Configure(c); !errors.Is(err, want) {
				t.Errorf("%+v: %v, want %v", c, err, want)
			}
		}
	}
	start(t, p, port.Config{Pool: pool, RxQueues: 20, TxOffloads: port.TxTCPTSO, WhereAvailable: true})
	if i := p.Info(); i.RxQueues != 16 || i.TxActive != 0 {
		t.Errorf("what is available: %+v", i)
	}
	for what, err := range map[string]error{"Configure": p.Configure(port.Config{Pool: pool}), "Start": p.Start()} {
		if !errors.Is(err, port.ErrState) {
			t.Errorf("%s while started: %v", what, err)
		}
	}
	if err := errors.Join(p.Stop(), p.Stop(), p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if err := p.Start(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}
