package driver_test

import (
	"fmt"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// BenchmarkTxBuffer sends in small batches, with and without a buffer in front
// of the queue: the driver's own cost, since the device completes at once and
// wants no notifications. Where it wants them, each burst costs one more.
func BenchmarkTxBuffer(b *testing.B) {
	for _, batch := range []int{1, 2, 4, 8, 32} {
		b.Run(fmt.Sprintf("batch=%d/without", batch), func(b *testing.B) { sendBatches(b, batch, 0) })
		b.Run(fmt.Sprintf("batch=%d/buffer=32", batch), func(b *testing.B) { sendBatches(b, batch, 32) })
	}
}

// sendBatches sends rounds of 32 packets, as a poll loop would.
func sendBatches(b *testing.B, batch, buffer int) {
	const round = 32
	r := startRig(b, rigConfig{})
	tx, poll := r.tx(), func() {}
	if buffer > 0 {
		t := newTxBuffer(b, tx, driver.TxBufferConfig{Size: buffer})
		begin := time.Now()
		tx, poll = port.TxQueue(t), func() {
			if t.Waiting() > 0 {
				t.Poll(time.Since(begin))
			}
		}
	}
	cache := r.pool.NewCache(0)
	tx.UseCache(cache)
	q := r.dev.Queue(virtio.TxQueue(0))
	q.SuppressKicks(true)
	pkts := make([]*mbuf.Buf, round)
	head := uint32(0)
	for b.Loop() {
		n := cache.Get(pkts)
		for _, p := range pkts[:n] {
			p.Renew(64)
		}
		for rest := pkts[:n]; len(rest) > 0; rest = rest[batch:] {
			if tx.Burst(rest[:batch]) != batch {
				b.Fatal("the ring is full")
			}
		}
		poll()
		for range round {
			q.PutUsed(head%256, 0)
			head++
		}
		q.Publish()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/round, "ns/packet")
	cache.Flush()
}
