package pci_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// TestGuestDriverWaits sends frames one by one from each function to the next,
// whose driver sleeps until its interrupt comes. The sender sleeps as well, until
// each of them was sent.
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
				if err := d.Configure(port.Config{Pool: pool, RxInterrupts: true, TxInterrupts: true}); err != nil {
					t.Fatal(err)
				}
				if err := d.Start(); err != nil {
					t.Fatal(err)
				}
			}
			const frames = 200
			slept := 0
			for n := range frames {
				b := pool.Get()
				copy(b.Append(len(testFrame())), testFrame())
				if from.TxQueue(0).Burst([]*mbuf.Buf{b}) != 1 {
					t.Fatalf("frame %d was not sent", n)
				}
				if waitUntilSent(t, from, n%2 == 0) {
					slept++
				}
				if got := string(waitForOne(t, to.RxQueue(0))); got != string(testFrame()) {
					t.Fatalf("frame %d came as % x", n, got)
				}
			}
			if slept == 0 {
				t.Error("every frame was sent before the sender slept")
			}
			fmt.Printf("cell %s: %s to %s: the driver slept for each of %d frames, the sender was woken %d times\n", f.Driver, f.cell, g.cell, frames, slept)
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

// waitUntilSent sleeps until the transmit queue holds nothing. To see the interrupt
// itself it sleeps on the queue's alarm first, and reports whether that was given: a
// frame may be sent before anybody sleeps.
func waitUntilSent(t *testing.T, d *driver.Device, alarmed bool) (slept bool) {
	t.Helper()
	q := d.TxQueue(0)
	if alarmed {
		alarm, err := port.AlarmOf(q)
		if err != nil {
			t.Fatal(err)
		}
		if alarm.Arm() == port.Forever {
			fds := []unix.PollFd{{Fd: int32(alarm.FD()), Events: unix.POLLIN}}
			n, err := 0, error(unix.EINTR) // which Go's own signals cause
			for err == unix.EINTR {
				n, err = unix.Poll(fds, 5000)
			}
			if n != 1 || err != nil {
				t.Fatalf("no interrupt for a frame that was sent: %v", err)
			}
			slept = true
		}
		alarm.Disarm()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := q.(port.TxWaiter).Wait(ctx, d.Info().TxDesc); err != nil {
		t.Fatal(err)
	}
	return slept
}
