package driver_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"vionet/driver"
	"vionet/mbuf"
)

// TestTxBufferKeepsEveryPacket does to a buffer whatever can be done to it, in
// any order, before a queue that takes what it likes. Each packet is sent or
// given up exactly once; those sent go in their order, and so do those given up.
func TestTxBufferKeepsEveryPacket(t *testing.T) {
	pool := newBuffers(t, 600)
	rapid.Check(t, func(t *rapid.T) {
		g := &gate{takes: rapid.SliceOfN(rapid.IntRange(0, 40), 0, 40).Draw(t, "takes")}
		var unsent, given []*mbuf.Buf
		cfg := driver.TxBufferConfig{
			Size:    rapid.IntRange(1, 33).Draw(t, "size"),
			Drain:   time.Duration(rapid.IntRange(0, 5).Draw(t, "drain")),
			Retries: rapid.IntRange(0, 3).Draw(t, "retries"),
			Unsent:  func(pkts []*mbuf.Buf) { unsent = append(unsent, pkts...) },
		}
		defer func() {
			for _, p := range given {
				p.Free()
			}
		}()
		b, err := driver.NewTxBuffer(g, cfg)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Duration(0)
		t.Repeat(map[string]func(*rapid.T){
			"burst": func(t *rapid.T) {
				n := rapid.IntRange(0, 50).Draw(t, "packets")
				if len(given)+n > pool.Size() {
					t.Skip("no buffers are left")
				}
				pkts := take(pool, n)
				given = append(given, pkts...)
				if got := b.Burst(pkts); got != n {
					t.Fatalf("Burst took %d of %d", got, n)
				}
				clear(pkts) // the slice is the caller's again
			},
			"poll":  func(t *rapid.T) { now += time.Duration(rapid.IntRange(0, 4).Draw(t, "later")); b.Poll(now) },
			"flush": func(*rapid.T) { b.Flush() },
			"": func(t *rapid.T) {
				s := b.Stats()
				if s.Packets != uint64(len(g.took)) || s.Dropped != uint64(len(unsent)) || len(g.took)+len(unsent)+b.Waiting() != len(given) {
					t.Fatalf("given %d, sent %d, unsent %d, %d wait; counted %+v", len(given), len(g.took), len(unsent), b.Waiting(), s)
				}
				if uint64(len(g.offered)) != s.Flushes()+s.Retries || b.Waiting() >= cfg.Size {
					t.Fatalf("%d bursts offered, %d of %d wait; counted %+v", len(g.offered), b.Waiting(), cfg.Size, s)
				}
			},
		})
		b.Close()
		serial := map[*mbuf.Buf]int{}
		for i, p := range given {
			serial[p] = i
		}
		number := func(p *mbuf.Buf) int {
			n, ok := serial[p]
			if !ok {
				t.Fatal("a packet went twice, or was never given")
			}
			delete(serial, p)
			return n
		}
		for _, list := range [][]*mbuf.Buf{g.took, unsent} {
			var numbers []int
			for _, p := range list {
				numbers = append(numbers, number(p))
			}
			if !slices.IsSorted(numbers) {
				t.Fatalf("out of order: %v", numbers)
			}
		}
		if len(serial) > 0 {
			t.Fatalf("%d packets are lost", len(serial))
		}
	})
}
