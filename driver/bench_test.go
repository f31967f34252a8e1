package driver_test

import (
	"testing"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// BenchmarkTx is the driver's own cost of sending: the device completes at
// once and touches nothing else.
func BenchmarkTx(b *testing.B) {
	for _, bb := range []struct {
		name string
		opts driver.Options
	}{{"simple", driver.Options{}}, {"standard", driver.Options{NoSimpleTx: true}}} {
		b.Run(bb.name, func(b *testing.B) {
			r := startRig(b, rigConfig{opts: bb.opts})
			cache := r.pool.NewCache(0)
			r.tx().UseCache(cache)
			q, tx := r.dev.Queue(virtio.TxQueue(0)), r.tx()
			pkts := make([]*mbuf.Buf, 32)
			head := uint32(0)
			for b.Loop() {
				n := cache.Get(pkts)
				for _, p := range pkts[:n] {
					p.Renew(64)
				}
				if sent := tx.Burst(pkts[:n]); sent != 32 {
					b.Fatalf("sent %d", sent)
				}
				for range 32 {
					q.PutUsed(head%256, 0)
					head++
				}
				q.Publish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/packet")
			cache.Flush()
		})
	}
}

// BenchmarkRx is the driver's own cost of receiving.
func BenchmarkRx(b *testing.B) {
	for _, bb := range []struct {
		name string
		opts driver.Options
		cfg  port.Config
	}{
		{"simple", driver.Options{NoMergeable: true}, port.Config{}},
		{"mergeable", driver.Options{}, port.Config{}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r := newRig(b, rigConfig{opts: bb.opts, port: bb.cfg})
			presetHeaders(r.pool)
			if err := r.port.Start(); err != nil {
				b.Fatal(err)
			}
			cache := r.pool.NewCache(0)
			r.rx().UseCache(cache)
			q, rx := r.dev.Queue(virtio.RxQueue(0)), r.rx()
			pkts := make([]*mbuf.Buf, 32)
			head := uint32(0)
			for b.Loop() {
				for range 32 {
					q.PutUsed(head%256, 76)
					head++
				}
				q.Publish()
				if n := rx.Burst(pkts); n != 32 {
					b.Fatalf("received %d: %v", n, rx.Err())
				}
				cache.Put(pkts)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/packet")
			cache.Flush()
		})
	}
}

// presetHeaders puts the header of a received packet of one buffer into every
// buffer, so that the device need not write it.
func presetHeaders(pool *mbuf.Pool) {
	var all []*mbuf.Buf
	hdr := virtio.NetHeader{NumBuffers: 1}
	for p := pool.Get(); p != nil; p = pool.Get() {
		hdr.Encode(p.Head(virtio.NetHeaderSize))
		all = append(all, p)
	}
	for _, p := range all {
		p.Free()
	}
}
