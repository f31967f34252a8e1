package driver_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"vionet/driver"
	"vionet/port"
)

// rings gives the two application sides of an XSK that stands still: what is
// submitted stays.
func rings(t *testing.T, size int) *driver.ProducerRing[driver.XSKDesc] {
	return startXSK(t, xskRigConfig{xsk: driver.XSKConfig{TxSize: size}}).xsk.Tx
}

// B09, the second half: slots that were reserved and not submitted are free
// again, and no more can be submitted than were reserved.
func TestB09ReservedSlotsComeBack(t *testing.T) {
	r := startXSK(t, xskRigConfig{xsk: driver.XSKConfig{TxSize: 128}})
	before := r.xsk.Tx.Free()
	for round := range 10_000 {
		if n := r.xsk.Tx.Reserve(64); n != 64 {
			t.Fatalf("round %d: %d slots of 64", round, n)
		}
		for i := range 51 {
			// A descriptor that is refused, and whose frame comes back at once.
			*r.xsk.Tx.Slot(i) = driver.XSKDesc{Addr: uint64(i) * 2048}
		}
		if err := r.xsk.Tx.Submit(65); !errors.Is(err, port.ErrInvalid) {
			t.Fatalf("65 of 64 reserved slots were submitted: %v", err)
		}
		if err := r.xsk.Tx.Submit(51); err != nil {
			t.Fatal(err)
		}
		if err := r.xsk.Tx.Submit(1); !errors.Is(err, port.ErrInvalid) {
			t.Fatalf("a slot that was given back was submitted: %v", err)
		}
		if n := r.xsk.Poll(); n != 51 {
			t.Fatalf("round %d: %d descriptors were taken, want 51", round, n)
		}
		if n := len(r.completed()); n != 51 {
			t.Fatalf("round %d: %d frames came back", round, n)
		}
	}
	if after := r.xsk.Tx.Free(); after != before {
		t.Errorf("%d slots are free, %d were before", after, before)
	}
}

func TestRingLimits(t *testing.T) {
	tx := rings(t, 8)
	if n := tx.Reserve(100); n != 8 || tx.Size() != 8 {
		t.Errorf("%d slots reserved of %d", n, tx.Size())
	}
	if n := tx.Reserve(-1); n != 0 {
		t.Errorf("%d slots reserved of -1", n)
	}
	for _, beyond := range []int{0, -1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("slot %d of none was given", beyond)
				}
			}()
			tx.Slot(beyond)
		}()
	}
	if err := tx.Submit(-1); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("-1 slots submitted: %v", err)
	}
	tx.Reserve(8)
	if err := tx.Submit(8); err != nil || tx.Free() != 0 || tx.Reserve(1) != 0 {
		t.Errorf("a full ring: %v, %d free", err, tx.Free())
	}
}

func TestReleaseNoMoreThanPeeked(t *testing.T) {
	r := startXSK(t, xskRigConfig{})
	for i := range uint64(4) {
		r.submit(driver.XSKDesc{Addr: i * 2048})
	}
	r.xsk.Poll()
	c := r.umem.Completion
	if n := c.Peek(3); n != 3 || *c.At(2) != 2*2048 {
		t.Fatalf("%d entries, the third %#x", n, *c.At(2))
	}
	if err := c.Release(4); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("4 of 3 entries were released: %v", err)
	}
	if err := c.Release(1); err != nil {
		t.Error(err)
	}
	if err := c.Release(1); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("an entry was released that was not peeked at anew: %v", err)
	}
	if n := c.Peek(9); n != 3 || *c.At(0) != 2048 {
		t.Errorf("%d entries left, the first %#x", n, *c.At(0))
	}
	c.Release(3)
}

// The two sides of each ring are different goroutines: what one submits the
// other sees, once, in order and whole.
func TestRingsBetweenGoroutines(t *testing.T) {
	r := startXSK(t, xskRigConfig{xsk: driver.XSKConfig{TxSize: 32}})
	const total = 200_000
	var sides sync.WaitGroup
	sides.Go(func() { // fills in bursts of any size
		rng := rand.New(rand.NewPCG(1, 1))
		for sent := 0; sent < total; {
			n := r.xsk.Tx.Reserve(min(1+rng.IntN(40), total-sent))
			for i := range n {
				// Refused, for it has no bytes: it goes straight to completion.
				*r.xsk.Tx.Slot(i) = driver.XSKDesc{Addr: uint64(sent+i) % (64 * 2048)}
			}
			if n > 0 {
				n = 1 + rng.IntN(n)
			}
			if r.xsk.Tx.Submit(n) != nil {
				t.Error("Submit failed")
				return
			}
			sent += n
		}
	})
	taken := 0
	for taken < total && !t.Failed() {
		r.xsk.Poll()
		n := r.umem.Completion.Peek(64)
		for i := range n {
			if got := *r.umem.Completion.At(i); got != uint64(taken+i)%(64*2048) {
				t.Fatalf("entry %d is %#x", taken+i, got)
			}
		}
		r.umem.Completion.Release(n)
		taken += n
	}
	sides.Wait()
}
