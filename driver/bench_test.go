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

// benchBurst is the number of packets in a burst of the benchmarks.
const benchBurst = 32

// benchRings are the virtqueues under every path.
var benchRings = slices.DeleteFunc(slices.Concat(ringKinds, inOrderKinds), func(k ringKind) bool { return k.opts.EventIdx })

// BenchmarkTx is the driver's own cost of sending, path by path: the device
// completes at once, touches nothing else, and wants no notifications.
func BenchmarkTx(b *testing.B) {
	const checksum = mbuf.TxTCPChecksum | mbuf.TxIPv4
	for _, path := range []struct {
		name  string
		opts  driver.Options
		cfg   port.Config
		flags mbuf.Flags // of each packet
	}{
		{"simple", driver.Options{}, port.Config{}, 0},
		{"standard", driver.Options{NoSimpleTx: true}, port.Config{}, 0},
		{"standard, checksum", driver.Options{}, port.Config{TxOffloads: port.TxTCPCksum}, checksum},
	} {
		eachRing(b, path.name, path.opts, path.cfg, func(r *rig) (round func()) {
			cache := r.pool.NewCache(0)
			r.t.Cleanup(cache.Flush)
			r.tx().UseCache(cache)
			q, tx := r.silent(virtio.TxQueue(0)), r.tx()
			pkts := make([]*mbuf.Buf, benchBurst)
			head := uint32(0)
			return func() {
				for _, p := range pkts[:cache.Get(pkts)] {
					p.Renew(64)
					p.L2Len, p.L3Len, p.L4Len, p.Flags = 14, 20, 20, path.flags
				}
				if sent := tx.Burst(pkts); sent != benchBurst {
					r.t.Fatalf("sent %d: %v", sent, tx.Err())
				}
				head = putUsed(q, head, 0)
			}
		})
	}
}

// BenchmarkRx is the driver's own cost of receiving, path by path.
func BenchmarkRx(b *testing.B) {
	offloads := port.Config{RxOffloads: port.RxTCPCksum | port.RxVLANStrip}
	for _, path := range []struct {
		name string
		opts driver.Options
		cfg  port.Config
	}{
		{"simple", driver.Options{NoMergeable: true}, port.Config{}},
		{"standard", driver.Options{NoMergeable: true}, offloads},
		{"mergeable", driver.Options{}, port.Config{}},
		{"mergeable, offloads", driver.Options{}, offloads},
	} {
		eachRing(b, path.name, path.opts, path.cfg, func(r *rig) (round func()) {
			cache := r.pool.NewCache(0)
			r.t.Cleanup(cache.Flush)
			r.rx().UseCache(cache)
			q, rx := r.silent(virtio.RxQueue(0)), r.rx()
			pkts := make([]*mbuf.Buf, benchBurst)
			head := uint32(0)
			return func() {
				head = putUsed(q, head, virtio.NetHeaderSize+64)
				if n := rx.Burst(pkts); n != benchBurst {
					r.t.Fatalf("received %d: %v", n, rx.Err())
				}
				cache.Put(pkts)
			}
		})
	}
}

// eachRing benchmarks a path over every kind of virtqueue. A round moves one
// burst, without an allocation.
func eachRing(b *testing.B, path string, opts driver.Options, cfg port.Config, prepare func(*rig) (round func())) {
	for _, kind := range benchRings {
		b.Run(path+"/"+kind.name, func(b *testing.B) {
			opts.InOrder = kind.opts.InOrder
			r := newRig(b, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: opts, port: cfg})
			presetHeaders(r.pool)
			if err := r.port.Start(); err != nil {
				b.Fatal(err)
			}
			round := prepare(r)
			if n := testing.AllocsPerRun(100, round); n != 0 {
				b.Errorf("%v allocations a burst", n)
			}
			for b.Loop() {
				round()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBurst, "ns/packet")
		})
	}
}

// silent is a virtqueue of the device that wants no notifications.
func (r *rig) silent(index int) *fakedev.Queue {
	q := r.dev.Queue(index)
	q.SuppressKicks(true)
	return q
}

// putUsed completes a burst of chains of one descriptor in order, the first of
// them that of head, and gives the next head.
func putUsed(q *fakedev.Queue, head, length uint32) (next uint32) {
	for range benchBurst {
		q.PutUsed(head%uint32(q.Size()), length)
		head++
	}
	q.Publish()
	return head
}

// presetHeaders puts the header of a received packet of one buffer and a frame
// into every buffer, so that neither side need write them.
func presetHeaders(pool *mbuf.Pool) {
	frame := tcpFrame(ipv4, 10)
	hdr := virtio.NetHeader{NumBuffers: 1}
	var all []*mbuf.Buf
	for p := pool.Get(); p != nil; p = pool.Get() {
		hdr.Encode(p.Head(virtio.NetHeaderSize))
		copy(p.Append(len(frame)), frame)
		all = append(all, p)
	}
	for _, p := range all {
		p.Free()
	}
}
