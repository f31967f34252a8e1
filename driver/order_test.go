package driver_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// TestB10TxCompletionsInAnyOrder sends chains of 1 to 4 segments, each with a
// serial number, through a device that completes them in random order, for 100
// wraps of the 16-bit index.
func TestB10TxCompletionsInAnyOrder(t *testing.T) {
	for i, kind := range ringKinds {
		offloads := []port.TxOffloads{0, port.TxMultiSegs}[i%2]
		t.Run(fmt.Sprintf("%s/offloads=%v", kind.name, offloads), func(t *testing.T) {
			r := startRig(t, rigConfig{
				dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer | virtio.IndirectDesc},
				opts: kind.opts, port: port.Config{TxOffloads: offloads}, buffers: 1500,
			})
			total := wraps(kind)
			rng := rand.New(rand.NewPCG(1, uint64(offloads)))
			q := r.dev.Queue(virtio.TxQueue(0))
			var inFlight []uint32
			sent, seen := uint64(0), uint64(0)
			cache := r.pool.NewCache(0)
			pkts := make([]*mbuf.Buf, 0, 32)
			segs := make([]*mbuf.Buf, 4)
			for seen < uint64(total) {
				pkts = pkts[:0]
				for range rng.IntN(32) {
					n := 1 + rng.IntN(4)
					if rng.IntN(8) > 0 {
						n = 1
					}
					if got := cache.Get(segs[:n]); got < n {
						cache.Put(segs[:got])
						break
					}
					for i, s := range segs[:n] {
						s.Reset()
						binary.LittleEndian.PutUint64(s.Append(64), sent<<8|uint64(i))
						if i > 0 {
							segs[0].Chain(s)
						}
					}
					pkts = append(pkts, segs[0])
					sent++
				}
				took := r.tx().Burst(pkts)
				for _, b := range pkts[took:] {
					sent--
					cache.Put([]*mbuf.Buf{b})
				}
				for q.Available() > 0 {
					f, err := r.dev.TakeSent(0)
					if err != nil {
						t.Fatal(err)
					}
					for i := 0; i*64 < len(f.Data); i++ {
						if got := binary.LittleEndian.Uint64(f.Data[i*64:]); got != seen<<8|uint64(i) {
							t.Fatalf("segment %d of packet %d carries %#x", i, seen, got)
						}
					}
					seen++
					inFlight = append(inFlight, uint32(f.Chain.Head))
				}
				rng.Shuffle(len(inFlight), func(i, j int) { inFlight[i], inFlight[j] = inFlight[j], inFlight[i] })
				keep := rng.IntN(len(inFlight) + 1)
				for _, head := range inFlight[keep:] {
					q.Use(head, 0)
				}
				inFlight = inFlight[:keep]
			}
			if err := r.tx().Err(); err != nil {
				t.Error(err)
			}
			cache.Flush()
		})
	}
}

// TestB10RxCompletionsInAnyOrder does the same for received packets.
func TestB10RxCompletionsInAnyOrder(t *testing.T) {
	for i, kind := range ringKinds {
		kind.opts.NoMergeable = i%2 == 1
		t.Run(fmt.Sprintf("%s/mergeable=%v", kind.name, !kind.opts.NoMergeable), func(t *testing.T) {
			r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer}, opts: kind.opts, buffers: 1500})
			total := wraps(kind)
			rng := rand.New(rand.NewPCG(2, 3))
			q := r.dev.Queue(virtio.RxQueue(0))
			hdr := virtio.NetHeader{NumBuffers: 1}
			var serial uint64
			var expect []uint64
			var held []chainInHand
			pkts := make([]*mbuf.Buf, 64)
			for serial < uint64(total) {
				for q.Available() > 0 && len(held) < 200 {
					c, err := q.Take()
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, chainInHand{c.Head, c.Buffers[0].Bytes})
				}
				rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
				keep := rng.IntN(len(held) + 1)
				for _, h := range held[keep:] {
					hdr.Encode(h.bytes)
					binary.LittleEndian.PutUint64(h.bytes[virtio.NetHeaderSize:], serial)
					expect = append(expect, serial)
					serial++
					q.Use(uint32(h.head), virtio.NetHeaderSize+64)
				}
				held = held[:keep]
				for {
					n := r.rx().Burst(pkts[:1+rng.IntN(len(pkts))])
					if n == 0 {
						break
					}
					for i, b := range pkts[:n] {
						if got := binary.LittleEndian.Uint64(b.Bytes()); got != expect[i] {
							t.Fatalf("packet %d came, %d was next", got, expect[i])
						}
						b.Free()
					}
					expect = expect[n:]
				}
			}
			if len(expect) != 0 || r.rx().Err() != nil {
				t.Errorf("%d packets never came; %v", len(expect), r.rx().Err())
			}
		})
	}
}

// wraps is the number of packets that wraps the 16-bit index 100 times, or once
// where each access is watched and where events add nothing to the order.
func wraps(k ringKind) int {
	if testing.Short() || raceEnabled || k.opts.EventIdx {
		return 1 << 16
	}
	return 100 << 16
}

type chainInHand struct {
	head  uint16
	bytes []byte
}
