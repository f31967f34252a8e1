package driver_test

import (
	"slices"
	"testing"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// TestB08RelayRecoversFromAStalledDevice relays from one port to another whose
// device stalls until every buffer of the shared pool is stuck in its ring. When
// it completes, Reclaim alone brings them back, without new traffic.
func TestB08RelayRecoversFromAStalledDevice(t *testing.T) {
	for _, kind := range slices.Concat(ringKinds, inOrderKinds) {
		t.Run(kind.name, func(t *testing.T) {
			cfg := fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 512}
			a := startRig(t, rigConfig{dev: cfg, opts: kind.opts, buffers: 512, port: port.Config{RxDesc: 64}})
			dev := fakedev.New(cfg)
			b, err := driver.Open(dev, kind.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			// b takes its own receive buffers from another pool.
			mem := a.mem
			pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 64})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Configure(port.Config{Pool: pool, RxDesc: 32}); err != nil {
				t.Fatal(err)
			}
			if err := b.Start(); err != nil {
				t.Fatal(err)
			}
			rx, tx := a.rx(), b.TxQueue(0)
			pkts := make([]*mbuf.Buf, 32)
			relay := func() int {
				n := rx.Burst(pkts)
				sent := tx.Burst(pkts[:n])
				for _, p := range pkts[sent:n] {
					p.Free()
				}
				return sent
			}
			// Overload: b's device takes nothing.
			for a.dev.Deliver(0, virtio.NetHeader{}, frame(64, 1)) == nil {
				relay()
			}
			relay()
			stuck := a.pool.Size() - a.pool.Free()
			if stuck < 400 {
				t.Fatalf("only %d buffers are stuck", stuck)
			}
			// It completes everything, and no new traffic comes.
			q := dev.Queue(virtio.TxQueue(0))
			completed := 0
			for q.Available() > 0 {
				c, err := q.Take()
				if err != nil {
					t.Fatal(err)
				}
				q.Use(uint32(c.Head), 0)
				completed++
			}
			if n := tx.Reclaim(); n != completed {
				t.Errorf("Reclaim freed %d packets, %d were completed", n, completed)
			}
			if n := tx.Reclaim(); n != 0 {
				t.Errorf("a second Reclaim freed %d", n)
			}
			relay() // gives buffers to the ring that ran dry
			if err := a.dev.Deliver(0, virtio.NetHeader{}, frame(64, 2)); err != nil {
				t.Fatal(err)
			}
			if relay() != 1 {
				t.Error("forwarding does not go on")
			}
		})
	}
}
