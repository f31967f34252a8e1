package pci_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/pci"
	"vionet/port"
	"vionet/virtio"
)

// TestGuestInterrupts sleeps until a frame comes and until the link changes,
// on every function.
func TestGuestInterrupts(t *testing.T) {
	nets := inGuest(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for i, f := range nets {
		t.Run(f.cell, func(t *testing.T) {
			before := openFDs(t)
			d, peer := openNet(t, f), openNet(t, nets[(i+1)%len(nets)])
			mem := newNetMemory(t, d.transport.Addressing(), false)
			told := make(chan struct{}, 100)
			d.transport.Watch(func() { told <- struct{}{} })
			d.start(t, mem, true)
			peer.start(t, mem, false)
			if enabled := msixEnabled(readConfigSpace(t, f)); enabled != f.msix() {
				t.Errorf("MSI-X enabled: %v", enabled)
			}
			// Those who do not listen to their line share it with those who do.
			if lineEnabled(readConfigSpace(t, f)) == f.msix() || lineEnabled(readConfigSpace(t, nets[(i+1)%len(nets)])) {
				t.Error("a function may pull its interrupt line that nobody listens to, or none may")
			}

			waiter := queueEvent(t, d)
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := waiter.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an event without a frame: %v", err)
			}
			for range 3 {
				d.rx.post(t, mem, make([]byte, 2048), 2)
				peer.send(t, mem, testFrame())
				waitEvent(t, waiter)
				if n := d.rx.waitUsed(t); n != d.header+len(testFrame()) {
					t.Errorf("received %d bytes", n)
				}
			}
			changeLink(t, d, i, told)

			done := make(chan error, 1)
			go func() { done <- waiter.Wait(context.Background()) }()
			closeNets(t, d, peer)
			if err := <-done; !errors.Is(err, port.ErrClosed) {
				t.Errorf("wait while closing: %v, want port.ErrClosed", err)
			}
			if err := mem.Close(); err != nil {
				t.Error(err)
			}
			if after := openFDs(t); after != before {
				t.Errorf("%d file descriptors are open, %d before", after, before)
			}
			fmt.Printf("cell %s: %s: interrupts of queue and link\n", f.Driver, f.cell)
		})
	}
}

// queueEvent gives the receive queue's event; the transmit queue has none.
func queueEvent(t *testing.T, d *netDevice) port.Waiter {
	t.Helper()
	if _, err := d.transport.QueueEvent(1); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("event of the transmit queue: %v", err)
	}
	w, err := d.transport.QueueEvent(0)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func waitEvent(t *testing.T, w port.Waiter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := w.Wait(ctx); err != nil {
		t.Fatalf("no interrupt of the queue: %v", err)
	}
}

// changeLink asks the host to pull the cable and to plug it in again.
func changeLink(t *testing.T, d *netDevice, i int, told <-chan struct{}) {
	t.Helper()
	for _, up := range []bool{false, true} {
		fmt.Printf("%s\n", cableWish(i, up))
		for deadline := time.After(10 * time.Second); d.linkUp(t) != up; {
			select {
			case <-told:
			case <-deadline:
				t.Fatalf("no interrupt when the link became up=%v", up)
			}
		}
	}
}

// cableWish is what the host is told to do with function i.
func cableWish(i int, up bool) string { return fmt.Sprintf("cable %d plugged=%v", i, up) }

func msixEnabled(config []byte) bool {
	for at := int(config[0x34]); at != 0; at = int(config[at+1]) {
		if config[at] == 0x11 {
			return config[at+3]&0x80 != 0
		}
	}
	return false
}

// lineEnabled reads the INTx-disable bit of the command register.
func lineEnabled(config []byte) bool { return config[5]&0x04 == 0 }

// TestGuestQueueReset resets a single queue and goes on with it.
func TestGuestQueueReset(t *testing.T) {
	nets := inGuest(t)
	a, b := openNet(t, nets[0]), openNet(t, nets[1])
	mem := newNetMemory(t, a.transport.Addressing(), false)
	a.start(t, mem, false)
	b.start(t, mem, false)
	a.rx.post(t, mem, make([]byte, 2048), 2)
	if err := a.transport.ResetQueue(0, time.Second); err != nil {
		t.Fatal(err)
	}
	a.rx = newHandRing(t, a, 0, mem, false)
	rx := a.rx.post(t, mem, make([]byte, 2048), 2)
	b.send(t, mem, testFrame())
	if n := a.rx.waitUsed(t); !bytes.Equal(rx.Bytes[a.header:n], testFrame()) {
		t.Errorf("received % x", rx.Bytes[:n])
	}
	if err := a.transport.ResetQueue(9, time.Second); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("reset of a queue that is not there: %v", err)
	}
	closeNets(t, a, b)
}

// unplugWish tells the host to pull the function on the second bus out,
// unplugged that it is gone.
const (
	unplugWish = "unplug"
	unplugged  = "function unplugged"
)

// TestGuestUnplug has a function pulled out while it works. VIONET_UNPLUG=1
// says that there is one on a bus of its own for that.
func TestGuestUnplug(t *testing.T) {
	inGuest(t)
	if os.Getenv("VIONET_UNPLUG") != "1" {
		t.Skip("this guest has no function to unplug")
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var victim pci.Function
	for _, f := range netFunctions(t) {
		if !strings.HasPrefix(f.BDF, "0000:00:") {
			victim = f
		}
	}
	before := openFDs(t)
	d := &netDevice{net: guestNet{Function: victim, cell: "modern, MSI-X"}}
	var err error
	if d.transport, err = pci.Open(pci.Tree{}, victim.BDF, pci.Options{}); err != nil {
		t.Fatal(err)
	}
	defer d.transport.Close()
	mem := newNetMemory(t, d.transport.Addressing(), false)
	told := make(chan struct{}, 100)
	d.transport.Watch(func() { told <- struct{}{} })
	if err := d.transport.Map(mem); err != nil {
		t.Fatal(err)
	}
	d.rx = newHandRing(t, d, 0, mem, true)

	fmt.Println(unplugWish)
	for deadline := time.After(20 * time.Second); err == nil; {
		select {
		case <-told:
			_, err = d.transport.Status()
		case <-deadline:
			t.Fatal("nobody told of the removal")
		}
	}
	t.Log(err)
	if victim.Driver == pci.DriverVFIO { // with UIO the register may be gone
		d.rx.kicker.Kick(1)
	}
	for what, err := range map[string]error{
		"status":     err,
		"set status": d.transport.SetStatus(virtio.StatusAcknowledge),
		"reset":      d.transport.Reset(time.Second),
		"map":        d.transport.Map(mem),
		"config":     d.transport.ReadConfig(0, make([]byte, 6)),
	} {
		if !errors.Is(err, pci.ErrGone) {
			t.Errorf("%s: %v, want pci.ErrGone", what, err)
		}
	}
	if err := d.transport.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for deadline := time.Now().Add(20 * time.Second); err == nil || !errors.Is(err, pci.ErrNoFunction); time.Sleep(10 * time.Millisecond) {
		if _, err = (pci.Tree{}).Function(victim.BDF); time.Now().After(deadline) {
			t.Fatal("the function is still there")
		}
	}
	if err := mem.Close(); err != nil {
		t.Error(err)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d file descriptors are open, %d before", after, before)
	}
	fmt.Printf("cell %s: %s\n", victim.Driver, unplugged)
}
