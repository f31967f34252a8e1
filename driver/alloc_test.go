package driver_test

import (
	"fmt"
	"testing"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// TestBurstsDoNotAllocate moves bursts through every path.
func TestBurstsDoNotAllocate(t *testing.T) {
	tests := []struct {
		opts driver.Options
		cfg  port.Config
		tx   string
		rx   string
	}{
		{driver.Options{NoMergeable: true}, port.Config{}, "simple", "simple"},
		{driver.Options{}, port.Config{}, "simple", "mergeable buffer"},
		{driver.Options{NoMergeable: true}, port.Config{TxOffloads: port.TxTCPCksum | port.TxVLANInsert, RxOffloads: port.RxVLANStrip}, "standard", "standard"},
		{driver.Options{}, port.Config{TxOffloads: port.TxTCPTSO, RxOffloads: port.RxTCPLRO}, "standard", "mergeable buffer"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/%s", tt.tx, tt.rx), func(t *testing.T) {
			r := startRig(t, rigConfig{opts: tt.opts, port: tt.cfg})
			if p := r.port.Paths(); p.Tx.Name != tt.tx || p.Rx.Name != tt.rx {
				t.Fatalf("paths %+v", p)
			}
			cache := r.pool.NewCache(0)
			r.tx().UseCache(cache)
			r.rx().UseCache(cache)
			pkts := make([]*mbuf.Buf, 32)
			txq, rxq := r.dev.Queue(virtio.TxQueue(0)), r.dev.Queue(virtio.RxQueue(0))
			tx, rx := r.tx(), r.rx()
			data := tcpFrame(ipv4, 100)
			head := uint32(0)
			allocs := testing.AllocsPerRun(1000, func() {
				n := cache.Get(pkts)
				for _, b := range pkts[:n] {
					b.Reset()
					copy(b.Append(len(data)), data)
					b.L2Len, b.L3Len, b.L4Len, b.SegSize = 14, 20, 20, 50
					switch {
					case tt.cfg.TxOffloads&port.TxTCPTSO != 0:
						b.Flags = mbuf.TxTSO | mbuf.TxIPv4
					case tt.cfg.TxOffloads != 0:
						b.Flags = mbuf.TxTCPChecksum | mbuf.TxIPv4 | mbuf.TxVLAN
					}
				}
				if sent := tx.Burst(pkts[:n]); sent != 32 {
					t.Fatalf("sent %d", sent)
				}
				for range 32 { // in order: descriptor n follows n-1
					txq.Use(head%256, 0)
					rxq.Use(head%256, 12+64)
					head++
				}
				got := rx.Burst(pkts)
				cache.Put(pkts[:got])
				if rx.Burst(pkts[:0]) != 0 || tx.Burst(nil) != 0 {
					t.Fatal("a burst of nothing moved something")
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations a round", allocs)
			}
			allocs = testing.AllocsPerRun(1000, func() { // nothing to do
				tx.Reclaim()
				if n := rx.Burst(pkts); n != 0 {
					t.Fatalf("received %d", n)
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations in an idle round", allocs)
			}
			if err := tx.Err(); err != nil {
				t.Error(err)
			}
			if s := r.port.Stats(); s.RxPackets+s.RxErrors == 0 {
				t.Error("nothing was received")
			}
			cache.Flush()
		})
	}
}
