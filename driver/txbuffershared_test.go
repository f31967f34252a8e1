package driver_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vionet/driver"
	"vionet/mbuf"
)

// arrivals is a transmit queue that tells when it is given packets.
type arrivals struct {
	gate
	bursts chan int
}

func (q *arrivals) Burst(pkts []*mbuf.Buf) int {
	n := q.gate.Burst(pkts)
	q.bursts <- n
	return n
}

func TestSharedTxBufferSendsByItself(t *testing.T) {
	pool := newBuffers(t, 32)
	q := &arrivals{bursts: make(chan int, 8)}
	b, err := driver.NewSharedTxBuffer(q, driver.TxBufferConfig{Size: 4, Drain: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for round, n := range []int{3, 1, 2} {
		b.Burst(take(pool, n))
		if got := <-q.bursts; got != n { // the test's own time limit ends it
			t.Errorf("round %d: %d went, want %d", round, got, n)
		}
	}
	b.Burst(take(pool, 5))
	if got := <-q.bursts; got != 5 {
		t.Errorf("a full burst of 5: %d went", got)
	}
	if n := b.Reclaim(); n != 11 {
		t.Errorf("Reclaim freed %d, want 11", n)
	}
	if got, want := b.Stats(), (driver.TxBufferStats{Full: 1, Late: 3, Packets: 11}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	b.Close()
}

// Packets wait from the first one's arrival on, however many follow; a flush by
// hand, or Close, leaves the timer nothing to send.
func TestSharedTxBufferKeepsTheTime(t *testing.T) {
	pool := newBuffers(t, 32)
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		g := &gate{}
		b, err := driver.NewSharedTxBuffer(g, driver.TxBufferConfig{Size: 8, Drain: 10 * ms})
		if err != nil {
			t.Fatal(err)
		}
		check := func(after time.Duration, want driver.TxBufferStats) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := b.Stats(); got != want {
				t.Errorf("counted %+v, want %+v", got, want)
			}
		}
		b.Burst(take(pool, 1))
		check(6*ms, driver.TxBufferStats{})
		b.Burst(take(pool, 2))
		check(4*ms-1, driver.TxBufferStats{})
		check(1, driver.TxBufferStats{Late: 1, Packets: 3})

		b.ResetStats()
		b.Burst(take(pool, 3))
		if n := b.Flush(); n != 3 {
			t.Errorf("Flush sent %d of 3", n)
		}
		check(time.Hour, driver.TxBufferStats{Asked: 1, Packets: 3})

		b.Burst(take(pool, 2))
		b.Close()
		check(time.Hour, driver.TxBufferStats{Asked: 2, Packets: 5})
		if len(g.offered) != 3 {
			t.Errorf("bursts of %v", g.offered)
		}
		g.Reclaim()
	})
}

// Once Close has returned nobody touches the queue any more, and until then
// nothing is lost, whoever sends at whatever time.
func TestSharedTxBufferServesAnyGoroutine(t *testing.T) {
	pool := newBuffers(t, 4096)
	for range 50 {
		var open atomic.Bool
		open.Store(true)
		q := &guarded{open: &open}
		b, err := driver.NewSharedTxBuffer(q, driver.TxBufferConfig{Size: 8, Drain: 20 * time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		var taken atomic.Uint64
		var senders sync.WaitGroup
		for range 4 {
			senders.Go(func() {
				for n := range 40 {
					pkts := take(pool, n%5)
					took := b.Burst(pkts)
					taken.Add(uint64(took))
					for _, p := range pkts[took:] {
						p.Free()
					}
					if n%16 == 0 {
						b.Flush()
						b.Reclaim()
						b.Err()
						b.Stats()
					}
				}
			})
		}
		time.Sleep(50 * time.Microsecond)
		b.Close()
		open.Store(false)
		senders.Wait()
		if s := b.Stats(); s.Packets != taken.Load() || s.Dropped != 0 {
			t.Fatalf("%d taken, counted %+v", taken.Load(), s)
		}
		if q.late.Load() {
			t.Fatal("the queue was used after Close")
		}
	}
}

// guarded is a transmit queue that frees what it takes and notices when it is
// used for too long.
type guarded struct {
	gate
	open *atomic.Bool
	late atomic.Bool
}

func (q *guarded) note() {
	if !q.open.Load() {
		q.late.Store(true)
	}
}

func (q *guarded) Reclaim() int { q.note(); return 0 }
func (q *guarded) Err() error   { q.note(); return nil }

func (q *guarded) Burst(pkts []*mbuf.Buf) int {
	q.note()
	for _, p := range pkts {
		p.Free()
	}
	return len(pkts)
}
