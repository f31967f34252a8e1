package pci_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// TestGuestDriverWaits sends frames one by one from each function to the next,
// whose driver sleeps until its interrupt comes.
func TestGuestDriverWaits(t *testing.T) {
	nets := inGuest(t)
	for i, f := range nets {
		g := nets[(i+1)%len(nets)]
		t.Run(f.cell, func(t *testing.T) {
			from, to := openDriver(t, f), openDriver(t, g)
			a := from.Addressing()
			mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 16 << 20, IOVA: a.Mode, Ranges: a.Ranges})
			if err != nil {
				t.Fatal(err)
			}
			defer mem.Close()
			pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 2048})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []*driver.Device{from, to} {
				defer d.Close()
				if err := d.Configure(port.Config{Pool: pool, RxInterrupts: true}); err != nil {
					t.Fatal(err)
				}
				if err := d.Start(); err != nil {
					t.Fatal(err)
				}
			}
			const frames = 200
			for n := range frames {
				b := pool.Get()
				copy(b.Append(len(testFrame())), testFrame())
				if from.TxQueue(0).Burst([]*mbuf.Buf{b}) != 1 {
					t.Fatalf("frame %d was not sent", n)
				}
				if got := string(waitForOne(t, to.RxQueue(0))); got != string(testFrame()) {
					t.Fatalf("frame %d came as % x", n, got)
				}
			}
			fmt.Printf("cell %s: %s to %s: the driver slept for each of %d frames\n", f.Driver, f.cell, g.cell, frames)
		})
	}
}

func openDriver(t *testing.T, f guestNet) *driver.Device {
	t.Helper()
	tr, err := openFunction(f)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Open(tr, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// waitForOne sleeps until a frame is there, and gives its bytes.
func waitForOne(t *testing.T, q port.RxQueue) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for {
		var one [1]*mbuf.Buf
		if q.Burst(one[:]) == 1 {
			frame := append([]byte(nil), one[0].Bytes()...)
			one[0].Free()
			return frame
		}
		if err := q.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
