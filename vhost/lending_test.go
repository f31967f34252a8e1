package vhost

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// lentRig is a port with dequeue zero copy, and the guest that it borrows from.
type lentRig struct {
	*portRig
	guest *guest
}

func newLentRig(t *testing.T, packed, inOrder bool) *lentRig {
	t.Helper()
	r := newPortRig(t, PortConfig{Packed: packed, ZeroCopy: true}, port.Config{})
	return &lentRig{r, startGuest(t, r.path, driver.Options{InOrder: inOrder}, port.Config{TxDesc: 64})}
}

// send sends frames of n bytes, from number first on.
func (r *lentRig) send(first, count, n int) {
	r.tb.Helper()
	for i := range count {
		b := packetOf(r.tb, r.guest.pool, frameOf(first+i, n), 2048)
		if r.guest.port.TxQueue(0).Burst([]*mbuf.Buf{b}) != 1 {
			r.tb.Fatalf("no room to send frame %d", first+i)
		}
	}
}

// take receives frames of n bytes, from number first on, and checks them.
func (r *lentRig) take(first, count, n int) (pkts []*mbuf.Buf) {
	r.tb.Helper()
	for i := range count {
		b := receive(r.tb, r.port.RxQueue(0))
		if !bytes.Equal(bytesOf(b), frameOf(first+i, n)) {
			r.tb.Fatalf("frame %d: %x", first+i, bytesOf(b))
		}
		pkts = append(pkts, b)
	}
	return pkts
}

// back is the number of packets that the guest has back when the port polls once.
func (r *lentRig) back() int {
	quiet(r.tb, r.port.RxQueue(0))
	return r.guest.port.TxQueue(0).Reclaim()
}

func (r *lentRig) lent() int { return r.port.(*vhostPort).rx[0].dev.Lent() }

// eachRing runs f over rings of all kinds.
func eachRing(t *testing.T, f func(t *testing.T, packed, inOrder bool)) {
	for _, packed := range []bool{false, true} {
		for _, inOrder := range []bool{false, true} {
			t.Run(fmt.Sprintf("packed=%v,in_order=%v", packed, inOrder), func(t *testing.T) { f(t, packed, inOrder) })
		}
	}
}

// The guest gets its buffers back when the packets are freed, in whatever order,
// and in the order in which it sent them.
func TestLentUntilFreed(t *testing.T) {
	eachRing(t, func(t *testing.T, packed, inOrder bool) {
		r := newLentRig(t, packed, inOrder)
		for round := range 100 {
			r.send(4*round, 4, 1400)
			pkts := r.take(4*round, 4, 1400)
			for i, b := range pkts {
				if !b.Lent() || b.Segments() != 1 || int(b.Port) != 0 {
					t.Fatalf("packet %d was copied", i)
				}
			}
			if n := r.lent(); n != 4 {
				t.Fatalf("%d frames lent, want 4", n)
			}
			free := func(i, want int) {
				t.Helper()
				pkts[i].Free()
				if got := r.back(); got != want {
					t.Fatalf("round %d: packet %d freed: the guest has %d back, want %d", round, i, got, want)
				}
			}
			free(2, 0)
			free(0, 1)
			free(1, 2)
			free(3, 1)
		}
		if text := r.port.Paths().Rx.Reason; !strings.Contains(text, "0 of queue 0") {
			t.Errorf("path: %s", text)
		}
	})
}

// What is short is copied; it waits behind what is lent.
func TestShortFramesAreCopied(t *testing.T) {
	eachRing(t, func(t *testing.T, packed, inOrder bool) {
		r := newLentRig(t, packed, inOrder)
		r.send(0, 1, lendMin)
		r.send(1, 2, lendMin-1)
		pkts := append(r.take(0, 1, lendMin), r.take(1, 2, lendMin-1)...)
		if !pkts[0].Lent() || pkts[1].Lent() || pkts[2].Lent() {
			t.Errorf("lent: %v, %v, %v, want the first alone", pkts[0].Lent(), pkts[1].Lent(), pkts[2].Lent())
		}
		if n := r.back(); n != 0 {
			t.Errorf("the guest has %d back before the first is freed", n)
		}
		for _, b := range pkts {
			b.Free()
		}
		if n := r.back(); n != 3 {
			t.Errorf("the guest has %d back, want 3", n)
		}
	})
}

// A frame that is lent takes no buffer of the port's pool, and one that must be
// copied waits for one.
func TestLendWithAnEmptyPool(t *testing.T) {
	r := newLentRig(t, false, false)
	rx := r.port.RxQueue(0).(*portRx)
	rx.own.Flush()
	var all []*mbuf.Buf
	for b := r.pool.Get(); b != nil; b = r.pool.Get() {
		all = append(all, b)
	}
	r.send(0, 2, 1400)
	r.send(2, 1, lendMin-1)
	pkts := r.take(0, 2, 1400)
	quiet(t, rx) // the short one can't be copied yet
	for _, b := range all {
		b.Free()
	}
	for _, b := range append(pkts, r.take(2, 1, lendMin-1)...) {
		b.Free()
	}
}

// A holder of half the ring makes the port copy the rest; nothing is lost.
func TestLendNoMoreThanHalfOfTheRing(t *testing.T) {
	eachRing(t, func(t *testing.T, packed, inOrder bool) {
		r := newLentRig(t, packed, inOrder)
		r.send(0, 60, 600)
		pkts := r.take(0, 60, 600)
		lent := slices.IndexFunc(pkts, func(b *mbuf.Buf) bool { return !b.Lent() })
		if lent != 32 || r.lent() != 32 || slices.ContainsFunc(pkts[32:], (*mbuf.Buf).Lent) {
			t.Errorf("the first %d of 60 frames are lent, %d in all; want half a ring of 64", lent, r.lent())
		}
		for _, b := range pkts {
			b.Free()
		}
		if n := r.back(); n != 60 {
			t.Errorf("the guest has %d of 60 back", n)
		}
		r.send(60, 1, 600)
		b := r.take(60, 1, 600)[0]
		if !b.Lent() {
			t.Error("nothing is lent any more")
		}
		b.Free()
	})
}

// A port that stops, and a guest that stops its ring, wait for what is lent.
func TestStopWaitsForLentFrames(t *testing.T) {
	eachRing(t, func(t *testing.T, packed, inOrder bool) {
		r := newLentRig(t, packed, inOrder)
		r.send(0, 8, 1000)
		pkts := r.take(0, 8, 1000)
		r.must(r.port.Stop())
		r.must(r.port.Start())
		start := time.Now()
		go func() {
			time.Sleep(drainTime / 10)
			for _, b := range pkts {
				if !bytes.Equal(b.Bytes()[:14], frameOf(0, 14)) {
					t.Errorf("a lent frame has changed: %x", b.Bytes())
				}
				b.Free()
			}
		}()
		r.must(r.guest.port.Stop())
		if waited := time.Since(start); waited < drainTime/10 {
			t.Errorf("the ring stopped after %v, while frames were in use", waited)
		}
		r.must(r.guest.port.Start())
		r.send(8, 1, 1000)
		r.take(8, 1, 1000)[0].Free()
	})
}

// Guests that go while frames of theirs are in use: the frames stay readable, and
// the memory goes when they do.
func TestGuestGoesWhileFramesAreLent(t *testing.T) {
	for _, how := range []string{"stops", "breaks off"} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,packed=%v", how, packed), func(t *testing.T) {
				r := newLentRig(t, packed, false)
				before := countMappings(t)
				g := r.guest
				r.send(0, 8, 1000)
				pkts := r.take(0, 8, 1000)
				if how == "breaks off" {
					g.f.peer.channel.conn.sock.Close()
				}
				g.port.Close()
				eventually(t, "the guest's own mapping given up", func() bool {
					return g.pool.Memory().Close() == nil
				})
				for i, b := range pkts {
					if !bytes.Equal(b.Bytes(), frameOf(i, 1000)) {
						t.Errorf("frame %d reads %x", i, b.Bytes())
					}
				}
				// Another guest is served meanwhile.
				next := startGuest(t, r.path, driver.Options{}, port.Config{})
				pass(t, next.port.TxQueue(0), r.port.RxQueue(0), packetOf(t, next.pool, frameOf(9, 900), 2048)).Free()
				// The first guest's own mapping is gone, the host's is not, and
				// there are two of the next guest's memory.
				if n := countMappings(t); n != before+1 {
					t.Errorf("%d mappings while frames are in use, want %d", n, before+1)
				}
				for _, b := range pkts {
					b.Free()
				}
				eventually(t, "the memory given back", func() bool { return countMappings(t) <= before })
			})
		}
	}
}

// Memory comes and goes while frames are lent.
func TestMemoryChangesWhileFramesAreLent(t *testing.T) {
	eachRing(t, func(t *testing.T, packed, inOrder bool) {
		r := newLentRig(t, packed, inOrder)
		r.send(0, 8, 1000)
		pkts := r.take(0, 8, 1000)
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(drainTime / 10)
			for _, b := range pkts {
				b.Free()
			}
		}()
		if err := r.guest.pool.Grow(4096); err != nil {
			t.Fatal(err)
		}
		<-done
		r.send(8, 20, 1000)
		for _, b := range r.take(8, 20, 1000) {
			b.Free()
		}
		// 28 were sent, and none came twice.
		quiet(t, r.port.RxQueue(0))
		if s := r.port.Stats(); s.RxPackets != 28 {
			t.Errorf("%d packets received, want 28", s.RxPackets)
		}
	})
}

// From one guest to the next: lent by the first port, copied by the second.
func TestLentFramesToAnotherGuest(t *testing.T) {
	for _, packed := range []bool{false, true} {
		r := newLentRig(t, packed, false)
		to := newPortRig(t, PortConfig{Packed: packed}, port.Config{})
		g := startGuest(t, to.path, driver.Options{}, port.Config{})
		for i := range 500 {
			r.send(i, 1, 1400)
			b := r.take(i, 1, 1400)[0]
			if !b.Lent() {
				t.Fatalf("frame %d was copied", i)
			}
			got := pass(t, to.port.TxQueue(0), g.port.RxQueue(0), b)
			if !bytes.Equal(bytesOf(got), frameOf(i, 1400)) {
				t.Fatalf("frame %d arrives as %x", i, bytesOf(got))
			}
			got.Free()
			if n := r.back(); n != 1 {
				t.Fatalf("frame %d: the guest has %d back, want 1", i, n)
			}
		}
	}
}

func TestLendingDoesNotAllocate(t *testing.T) {
	r := newLentRig(t, false, false)
	cache, guestCache := r.pool.NewCache(0), r.guest.pool.NewCache(0)
	rx, tx := r.port.RxQueue(0), r.guest.port.TxQueue(0)
	rx.UseCache(cache)
	tx.UseCache(guestCache)
	pkts, lent := make([]*mbuf.Buf, 32), 0
	allocs := testing.AllocsPerRun(500, func() {
		n := guestCache.Get(pkts[:16])
		for _, b := range pkts[:n] {
			b.Renew(1400)
		}
		guestCache.Put(pkts[tx.Burst(pkts[:n]):n])
		n = rx.Burst(pkts)
		for _, b := range pkts[:n] {
			if b.Lent() {
				lent++
			}
		}
		cache.Put(pkts[:n])
	})
	if allocs != 0 || lent < 500*16 {
		t.Errorf("%v allocations a round, %d frames lent", allocs, lent)
	}
	cache.Flush()
	r.must(r.guest.port.Stop())
	guestCache.Flush()
}

// Memory that the guest could take away is lent from only where the guest is
// trusted.
func TestUnsealedMemoryIsNotLent(t *testing.T) {
	for _, tt := range []struct {
		policy lendPolicy
		lends  bool
	}{{lendNone, false}, {lendSealed, false}, {lendAny, true}} {
		var log safeBuffer
		b := newTestBackend(t, BackendConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
		q := b.TxQueue(0)
		q.lends = tt.policy
		g := newRawGuest(t, rawPeer(t, b), bare)
		g.share()
		g.start()
		q.mu.Lock()
		lends := q.lending != nil
		q.mu.Unlock()
		if lends != tt.lends {
			t.Errorf("policy %d: the queue lends: %v", tt.policy, lends)
		}
		if told := strings.Contains(log.String(), "dequeue-zero-copy=2"); told != (tt.policy == lendSealed) {
			t.Errorf("policy %d: told what to do: %v\n%s", tt.policy, told, log.String())
		}
	}
}
