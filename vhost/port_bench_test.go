package vhost

import (
	"errors"
	"fmt"
	"testing"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// BenchmarkPort sends frames from the guest to the port and back to the guest,
// all on one goroutine: the cost of both ends.
func BenchmarkPort(b *testing.B) {
	for _, packed := range []bool{false, true} {
		for _, size := range []int{64, 1400} {
			b.Run(fmt.Sprintf("packed=%v,%d", packed, size), func(b *testing.B) {
				r := newPortRig(b, PortConfig{Packed: packed}, port.Config{})
				g := startGuest(b, r.path, driver.Options{}, port.Config{})
				cache, guestCache := r.pool.NewCache(0), g.pool.NewCache(0)
				tx, rx := r.port.TxQueue(0), r.port.RxQueue(0)
				tx.UseCache(cache)
				rx.UseCache(cache)
				g.port.TxQueue(0).UseCache(guestCache)
				g.port.RxQueue(0).UseCache(guestCache)
				pkts := make([]*mbuf.Buf, 32)
				moved := 0
				for b.Loop() {
					n := guestCache.Get(pkts)
					for _, p := range pkts[:n] {
						p.Renew(size)
					}
					guestCache.Put(pkts[g.port.TxQueue(0).Burst(pkts[:n]):n])
					n = rx.Burst(pkts)
					cache.Put(pkts[tx.Burst(pkts[:n]):n])
					n = g.port.RxQueue(0).Burst(pkts)
					guestCache.Put(pkts[:n])
					moved += n
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(moved), "ns/packet")
				if err := r.port.Stop(); err != nil {
					b.Fatal(err)
				}
				cache.Flush()
				if err := g.port.Stop(); err != nil {
					b.Fatal(err)
				}
				guestCache.Flush()
			})
		}
	}
}

func TestPortBurstsDoNotAllocate(t *testing.T) {
	for _, packed := range []bool{false, true} {
		r := newPortRig(t, PortConfig{Packed: packed}, port.Config{})
		g := startGuest(t, r.path, driver.Options{}, port.Config{})
		cache := r.pool.NewCache(0)
		tx, rx := r.port.TxQueue(0), r.port.RxQueue(0)
		tx.UseCache(cache)
		rx.UseCache(cache)
		out, in := make([]*mbuf.Buf, 32), make([]*mbuf.Buf, 32)
		guestCache := g.pool.NewCache(0)
		g.port.TxQueue(0).UseCache(guestCache)
		g.port.RxQueue(0).UseCache(guestCache)
		moved := 0
		allocs := testing.AllocsPerRun(500, func() {
			n := guestCache.Get(out[:16])
			for _, b := range out[:n] {
				b.Renew(64)
			}
			guestCache.Put(out[g.port.TxQueue(0).Burst(out[:n]):n])
			n = rx.Burst(in)
			moved += n
			sent := tx.Burst(in[:n])
			cache.Put(in[sent:n])
			guestCache.Put(in[:g.port.RxQueue(0).Burst(in)])
			rx.Burst(in)
			tx.Burst(nil)
		})
		if allocs != 0 || moved < 500*16 {
			t.Errorf("packed=%v: %v allocations a round, %d packets", packed, allocs, moved)
		}
		if err := errors.Join(tx.Err(), rx.Err()); err != nil {
			t.Error(err)
		}
		r.must(r.port.Stop())
		cache.Flush()
		checkWhole(t, r.pool)
		r.must(g.port.Stop())
		guestCache.Flush()
	}
}
