package port_test

import (
	"errors"
	"testing"

	"vionet/mbuf"
	"vionet/port"
)

func newPool(t *testing.T, count int) *mbuf.Pool {
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

func startedNull(t *testing.T, cfg port.NullConfig, pool *mbuf.Pool) port.Port {
	t.Helper()
	p, err := port.NewNull(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if err := p.Configure(port.Config{RxQueues: 1, TxQueues: 1, Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNullForwardsAndAccountsForEveryBuffer(t *testing.T) {
	for _, cfg := range []port.NullConfig{{}, {Size: 1514}, {Size: 200, Copy: true}} {
		pool := newPool(t, 1024)
		p := startedNull(t, cfg, pool)
		size := max(cfg.Size, 64)
		bufs := make([]*mbuf.Buf, 32)
		for range 10 {
			if n := p.RxQueue(0).Burst(bufs); n != 32 {
				t.Fatalf("burst of %d, want 32", n)
			}
			if got := bufs[31].PacketLen(); got != size {
				t.Fatalf("frame of %d bytes, want %d", got, size)
			}
			if n := p.TxQueue(0).Burst(bufs); n != 32 {
				t.Fatalf("took %d, want 32", n)
			}
		}
		s := p.Stats()
		if s.RxPackets != 320 || s.TxPackets != 320 || s.TxBytes != uint64(320*size) || s.Rx[0].Packets != 320 {
			t.Errorf("stats %+v", s)
		}
		p.Stop()
		if pool.Free() != pool.Size() {
			t.Errorf("%d of %d buffers are back", pool.Free(), pool.Size())
		}
		if s := p.Stats(); s.RxPackets != 320 {
			t.Errorf("a stop forgot the counters: %+v", s)
		}
		p.ResetStats()
		if s := p.Stats(); s.RxPackets != 0 || s.TxBytes != 0 {
			t.Errorf("after the reset: %+v", s)
		}
	}
}

func TestNullCountsWhatThePoolCannotGive(t *testing.T) {
	pool := newPool(t, 16)
	p := startedNull(t, port.NullConfig{}, pool)
	bufs := make([]*mbuf.Buf, 32)
	if n := p.RxQueue(0).Burst(bufs); n != 16 {
		t.Fatalf("burst of %d from a pool of 16", n)
	}
	if got := p.Stats().RxNoBuf; got != 16 {
		t.Errorf("RxNoBuf %d, want 16", got)
	}
	for _, b := range bufs[:16] {
		b.Free()
	}
}

func TestNullNoRx(t *testing.T) {
	p := startedNull(t, port.NullConfig{NoRx: true}, newPool(t, 64))
	if n := p.RxQueue(0).Burst(make([]*mbuf.Buf, 8)); n != 0 {
		t.Errorf("received %d", n)
	}
}

func TestNullSharedCacheStaysWithItsOwner(t *testing.T) {
	pool := newPool(t, 1024)
	p := startedNull(t, port.NullConfig{}, pool)
	first, second := pool.NewCache(64), pool.NewCache(64)
	bufs := make([]*mbuf.Buf, 8)
	p.RxQueue(0).UseCache(first)
	p.RxQueue(0).Burst(bufs)
	first.Put(bufs)
	before := pool.Free()
	p.RxQueue(0).UseCache(second)
	if pool.Free() != before {
		t.Error("changing the cache flushed one that belongs to somebody else")
	}
	first.Flush()
	if pool.Free() != pool.Size() {
		t.Errorf("%d of %d buffers are back", pool.Free(), pool.Size())
	}
}

func TestNullRefuses(t *testing.T) {
	if _, err := port.NewNull(port.NullConfig{Size: 70000}); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("size 70000: %v", err)
	}
	pool := newPool(t, 16)
	p, err := port.NewNull(port.NullConfig{Size: 3000})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Configure(port.Config{Pool: pool}); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("frames larger than buffers: %v", err)
	}
	if err := p.Start(); !errors.Is(err, port.ErrState) {
		t.Errorf("start before configure: %v", err)
	}
	p, _ = port.NewNull(port.NullConfig{})
	for want, c := range map[error]port.Config{
		port.ErrNotSupported: {TxOffloads: port.TxTCPCksum, Pool: pool},
		port.ErrInvalid:      {RxQueues: 2000, Pool: pool},
	} {
		if err := p.Configure(c); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", c, err, want)
		}
	}
	if err := p.Configure(port.Config{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.Configure(port.Config{Pool: pool}); !errors.Is(err, port.ErrState) {
		t.Errorf("configure while started: %v", err)
	}
	p.Close()
	p.Close()
	if err := p.Start(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
}

func TestNullAllocatesNothing(t *testing.T) {
	p := startedNull(t, port.NullConfig{}, newPool(t, 1024))
	rx, tx, bufs := p.RxQueue(0), p.TxQueue(0), make([]*mbuf.Buf, 32)
	if n := testing.AllocsPerRun(100, func() { tx.Burst(bufs[:rx.Burst(bufs)]) }); n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
}
