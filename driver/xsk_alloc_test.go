package driver_test

import (
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// TestXSKDoesNotAllocate sends and receives through an XSK, on both transmit
// paths and both ways to receive.
func TestXSKDoesNotAllocate(t *testing.T) {
	for _, standard := range []bool{false, true} {
		for _, zeroCopy := range []bool{false, true} {
			r := startRx(t, zeroCopy, xskRigConfig{rigConfig: rigConfig{opts: driver.Options{NoSimpleTx: standard}}})
			txq, rxq := r.dev.Queue(virtio.TxQueue(0)), r.dev.Queue(virtio.RxQueue(0))
			for i := range 48 {
				r.post(uint64(i) * 2048)
			}
			r.xsk.Poll()
			if !zeroCopy {
				presetHeaders(r.pool)
			}
			heads := [2]uint32{}
			round := func() {
				for i := range r.xsk.Tx.Reserve(8) {
					*r.xsk.Tx.Slot(i) = driver.XSKDesc{Addr: uint64(48+i)*2048 + 128, Len: 60}
				}
				r.xsk.Tx.Submit(8)
				r.xsk.Poll()
				for range 8 {
					txq.Use(heads[0]%uint32(txq.Size()), 0)
					rxq.Use(heads[1]%uint32(rxq.Size()), 12+64)
					heads[0]++
					heads[1]++
				}
				r.xsk.Poll()
				n := r.umem.Completion.Peek(64)
				if r.umem.Completion.Release(n); n != 8 {
					t.Fatalf("%d completed: %v", n, r.tx().Err())
				}
				n = r.xsk.Rx.Peek(64)
				for i := range r.umem.Fill.Reserve(n) {
					*r.umem.Fill.Slot(i) = r.xsk.Rx.At(i).Addr
				}
				r.umem.Fill.Submit(n)
				r.xsk.Rx.Release(n)
			}
			if allocs := testing.AllocsPerRun(500, round); allocs != 0 {
				t.Errorf("standard path %v, zero copy %v: %v allocations a round", standard, zeroCopy, allocs)
			}
			if allocs := testing.AllocsPerRun(100, func() { r.xsk.Poll() }); allocs != 0 {
				t.Errorf("%v allocations in an idle round", allocs)
			}
		}
	}
}

// BenchmarkXSK is the cost of a frame from the tx to the completion ring, beside
// that of BenchmarkTx.
func BenchmarkXSK(b *testing.B) {
	for _, bb := range []struct {
		name string
		opts driver.Options
	}{{"simple", driver.Options{}}, {"standard", driver.Options{NoSimpleTx: true}}} {
		b.Run(bb.name, func(b *testing.B) {
			r := startXSK(b, xskRigConfig{
				rigConfig: rigConfig{dev: fakedev.Config{}, opts: bb.opts, port: port.Config{}},
				umem:      driver.UMEMConfig{Area: mbuf.Area{Bytes: anonymous(b, 1024*2048)}}, xsk: driver.XSKConfig{TxSize: 256},
			})
			q := r.dev.Queue(virtio.TxQueue(0))
			free := make([]uint64, r.umem.Frames())
			for i := range free {
				free[i] = uint64(i)*2048 + 128
			}
			head := uint32(0)
			for b.Loop() {
				n := r.xsk.Tx.Reserve(32)
				for i := range n {
					*r.xsk.Tx.Slot(i) = driver.XSKDesc{Addr: free[len(free)-1-i], Len: 64}
				}
				r.xsk.Tx.Submit(n)
				free = free[:len(free)-n]
				r.xsk.Poll()
				for range n {
					q.PutUsed(head%256, 0)
					head++
				}
				q.Publish()
				done := r.umem.Completion.Peek(64)
				for i := range done {
					free = append(free, *r.umem.Completion.At(i))
				}
				r.umem.Completion.Release(done)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/packet")
		})
	}
}
