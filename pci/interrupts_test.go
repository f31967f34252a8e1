package pci

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"vionet/port"
	"vionet/virtio"
)

// signal does what the kernel does when an interrupt comes.
func signal(t *testing.T, eventfd int) {
	t.Helper()
	if _, err := unix.Write(eventfd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
}

// openFake opens a fake modern device, which the test closes.
func openFake(t *testing.T, a *fakeAccess) *Transport {
	t.Helper()
	tr, err := newTransport("0000:00:01.0", a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// told gives a function for Watch and what tells of its calls.
func told() (changed func(), calls <-chan struct{}) {
	c := make(chan struct{}, 100)
	return func() { c <- struct{}{} }, c
}

// Vector 0 tells of the configuration, vector 1+i of receive queue i. Both are
// in place before the queue, and once more after a reset, which ends the
// queues' events.
func TestVectors(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a, common, _, _ := newFakeAccess(virtio.Version1)
	common.set16(regNumQueues, 5)
	a.vectors = 4
	tr := openFake(t, a)
	common.log = nil
	changed, calls := told()
	tr.Watch(changed)
	if diff := cmp.Diff([]regAccess{{"w", 16, 2, 0}}, common.writes()); diff != "" {
		t.Errorf("watch (-want +got)\n%s", diff)
	}
	common.log = nil
	if _, err := tr.SetupQueue(port.QueueSetup{Index: 2, Size: 256, Interrupt: true}); err != nil {
		t.Fatal(err)
	}
	want := []regAccess{{"w", 22, 2, 2}, {"w", 24, 2, 256}, {"w", 26, 2, 2}}
	if diff := cmp.Diff(want, common.writes()[:3]); diff != "" {
		t.Errorf("set up (-want +got)\n%s", diff)
	}
	if _, err := tr.SetupQueue(port.QueueSetup{Index: 0, Size: 256}); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.QueueEvent(0); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("event of a queue without interrupts: %v", err)
	}
	event, err := tr.QueueEvent(2)
	if err != nil {
		t.Fatal(err)
	}
	signal(t, a.routes[2])
	if err := event.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	signal(t, a.routes[0])
	<-calls

	common.log = nil
	if err := tr.Reset(time.Second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]regAccess{{"w", 20, 1, 0}, {"w", 16, 2, 0}}, common.writes()); diff != "" {
		t.Errorf("reset (-want +got)\n%s", diff)
	}
	if err := event.Wait(t.Context()); !errors.Is(err, port.ErrClosed) {
		t.Errorf("wait after the reset: %v, want port.ErrClosed", err)
	}
	if a.routes[2] != -1 {
		t.Errorf("vector 2 still signals %d", a.routes[2])
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.QueueEvent(2); !errors.Is(err, port.ErrClosed) {
		t.Errorf("event after close: %v", err)
	}
}

// Transmit queues take vectors from the last one down, until they meet those of
// the receive queues.
func TestTransmitVectors(t *testing.T) {
	a, common, _, _ := newFakeAccess(virtio.Version1)
	common.set16(regNumQueues, 5)
	a.vectors = 4
	tr := openFake(t, a)
	for _, q := range []struct{ index, vector int }{{0, 1}, {1, 3}, {2, 2}} {
		if _, err := tr.SetupQueue(port.QueueSetup{Index: q.index, Size: 256, Interrupt: true}); err != nil {
			t.Fatal(err)
		}
		event, err := tr.QueueEvent(q.index)
		if err != nil {
			t.Fatal(err)
		}
		signal(t, a.routes[q.vector])
		if err := event.Wait(t.Context()); err != nil {
			t.Errorf("virtqueue %d: %v", q.index, err)
		}
	}
	if _, err := tr.SetupQueue(port.QueueSetup{Index: 3, Size: 256, Interrupt: true}); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("a fourth queue: %v, want ErrNotSupported", err)
	}
	if err := tr.Reset(time.Second); err != nil {
		t.Fatal(err)
	}
	for _, vector := range []int{1, 2, 3} {
		if a.routes[vector] != -1 {
			t.Errorf("vector %d still signals %d after the reset", vector, a.routes[vector])
		}
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
}

// Without Watch and without interrupts of queues nothing is set up.
func TestPollingCostsNothing(t *testing.T) {
	before := openFDs(t)
	a, common, _, _ := newFakeAccess(virtio.Version1)
	a.vectors = 4
	tr := openFake(t, a)
	if _, err := tr.SetupQueue(port.QueueSetup{Size: 256}); err != nil {
		t.Fatal(err)
	}
	if len(a.routes) > 0 || a.removal != -1 {
		t.Errorf("routes %v, removal %d", a.routes, a.removal)
	}
	if diff := cmp.Diff(before, openFDs(t)); diff != "" {
		t.Errorf("file descriptors (-before +after)\n%s", diff)
	}
	for _, w := range common.writes() {
		if w.Offset == regConfigVector || w.Offset == regQueueVector && w.Value != noVector {
			t.Errorf("wrote %+v", w)
		}
	}
}

func TestVectorsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		index  int
		change func(a *fakeAccess, common *fakeRegisters)
		err    error
		text   string
	}{
		{
			name: "fewer than queues", index: 6, err: port.ErrNotSupported,
			text: "interrupts of virtqueue 6: operation not supported: the function has 4 MSI-X vectors, one is needed for the configuration and one for each queue that interrupts: give QEMU's device vectors=8",
		},
		{name: "transmit queue with none left", index: 7, err: port.ErrNotSupported, text: "give QEMU's device vectors=9"},
		{name: "no queue", index: -1, err: port.ErrInvalid, text: "virtqueue -1"},
		{
			name: "neither vectors nor a line", err: port.ErrNotSupported, text: "no MSI-X vectors",
			change: func(a *fakeAccess, _ *fakeRegisters) { a.vectors = 0 },
		},
		{
			name: "device refuses the queue's vector", text: "virtqueue 0: the device refuses MSI-X vector 1",
			change: func(_ *fakeAccess, common *fakeRegisters) {
				common.onWrite = func(offset int, _ uint32) {
					if offset == regQueueVector {
						common.set16(regQueueVector, noVector)
					}
				}
			},
		},
		{
			name: "device refuses the configuration's vector", text: "the device refuses MSI-X vector 0",
			change: func(_ *fakeAccess, common *fakeRegisters) {
				common.onWrite = func(offset int, _ uint32) {
					if offset == regConfigVector {
						common.set16(regConfigVector, noVector)
					}
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			before := openFDs(t)
			a, common, _, _ := newFakeAccess(virtio.Version1)
			common.set16(regNumQueues, 9)
			a.vectors = 4
			if tt.change != nil {
				tt.change(a, common)
			}
			tr := openFake(t, a)
			_, err := tr.SetupQueue(port.QueueSetup{Index: tt.index, Size: 256, Interrupt: true})
			if err == nil || !strings.Contains(err.Error(), tt.text) || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v with %q", err, tt.err, tt.text)
			}
			if _, err := tr.QueueEvent(tt.index); !errors.Is(err, port.ErrNotSupported) {
				t.Errorf("event of the queue: %v", err)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(before, openFDs(t)); diff != "" {
				t.Errorf("file descriptors (-before +after)\n%s", diff)
			}
		})
	}
}

// The ISR status says whom the line has fired for. It is unmasked each time.
func TestLine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a, common, _, _ := newFakeAccess(virtio.Version1)
	common.set16(regNumQueues, 4)
	a.line = newFakeLine(t)
	isr := a.windows[0x1000]
	causes := make(chan uint8, 1)
	isr.onRead = func(int, int) { isr.bytes[0] = <-causes }
	tr := openFake(t, a)
	changed, calls := told()
	tr.Watch(changed)
	var events []port.Waiter
	for _, index := range []int{0, 2} {
		if _, err := tr.SetupQueue(port.QueueSetup{Index: index, Size: 256, Interrupt: true}); err != nil {
			t.Fatal(err)
		}
		event, err := tr.QueueEvent(index)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	fire := func(cause uint8) {
		causes <- cause
		signal(t, a.line.FD())
	}
	fire(isrQueue)
	for _, e := range events {
		if err := e.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	fire(isrConfig)
	<-calls
	fire(isrQueue | isrConfig)
	<-calls
	for _, e := range events {
		if err := e.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := a.line.unmasks.Load(); n != 4 {
		t.Errorf("unmasked %d times, want once at first and once after each interrupt", n)
	}
	if len(calls) != 0 {
		t.Error("told of more changes than there were")
	}
	fire(isrGone)
	<-calls
	if _, err := tr.Status(); !errors.Is(err, ErrGone) {
		t.Errorf("status after the line read as all ones: %v", err)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

// When the line tells that the function was removed, its registers are left
// alone from then on: they may be gone as well.
func TestLineLost(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a, common, _, _ := newFakeAccess(virtio.Version1)
	a.line = newFakeLine(t)
	a.line.lost = true
	tr := openFake(t, a)
	changed, calls := told()
	common.log = nil
	tr.Watch(changed)
	armed := len(common.log)
	signal(t, a.line.FD())
	<-calls
	expectGone(t, tr)
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	if len(common.log) != armed {
		t.Errorf("registers touched: %+v", common.log[armed:])
	}
}

// A callback that waits for what the closing goroutine holds does not keep
// Close from returning.
func TestCloseWithinCallback(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a, _, _, _ := newFakeAccess(virtio.Version1)
	a.vectors = 1
	tr := openFake(t, a)
	entered, release := make(chan struct{}), make(chan struct{})
	tr.Watch(func() { close(entered); <-release })
	signal(t, a.routes[0])
	<-entered
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	close(release)
}

// When the kernel wants the function back, everybody is told, and the device
// is still made quiet.
func TestRemovalAnnounced(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a, common, notify, _ := newFakeAccess(virtio.Version1)
	a.vectors = 2
	tr := openFake(t, a)
	changed, calls := told()
	tr.Watch(changed)
	k, err := tr.SetupQueue(port.QueueSetup{Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	common.bytes[regDeviceStatus] = 7
	signal(t, a.removal)
	<-calls
	expectGone(t, tr)
	if s := common.bytes[regDeviceStatus]; s != 0 {
		t.Errorf("status %#x after a reset of the leaving device, want 0", s)
	}
	k.Kick(1)
	if len(notify.log) != 1 {
		t.Errorf("kick: %+v", notify.log)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	if a.command&commandBusMaster != 0 {
		t.Error("the bus master is still on")
	}
}

// expectGone calls every method of a device that is gone, Reset last.
func expectGone(t *testing.T, tr *Transport) {
	t.Helper()
	_, status := tr.Status()
	_, features := tr.Features()
	_, size := tr.QueueSize(0)
	_, queue := tr.SetupQueue(port.QueueSetup{Size: 256})
	_, event := tr.QueueEvent(0)
	for what, err := range map[string]error{
		"Status": status, "Features": features, "QueueSize": size, "SetupQueue": queue, "QueueEvent": event,
		"SetStatus":   tr.SetStatus(virtio.StatusAcknowledge),
		"SetFeatures": tr.SetFeatures(virtio.Version1),
		"ReadConfig":  tr.ReadConfig(0, make([]byte, 6)),
		"ResetQueue":  tr.ResetQueue(0, time.Second),
		"Map":         tr.Map(nil),
		"Reset":       tr.Reset(time.Second),
	} {
		if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "0000:00:01.0") {
			t.Errorf("%s: %v, want ErrGone", what, err)
		}
	}
}

// A device that was pulled out reads as all ones. Close does not wait for it.
func TestRemovalByAllOnes(t *testing.T) {
	a, common, _, _ := newFakeAccess(virtio.Version1)
	tr := openFake(t, a)
	common.onRead = func(offset, width int) {
		for i := range common.bytes {
			common.bytes[i] = 0xff
		}
	}
	expectGone(t, tr)
	start := time.Now()
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took >= openTimeout {
		t.Errorf("close took %v", took)
	}
	if a.closed != 1 {
		t.Errorf("the access was closed %d times", a.closed)
	}
}

// Where removals are not announced, nothing is lost and nothing is said.
func TestRemovalUnannounced(t *testing.T) {
	a, _, _, _ := newFakeAccess(virtio.Version1)
	a.vectors, a.mute = 2, true
	tr := openFake(t, a)
	changed, calls := told()
	tr.Watch(changed)
	signal(t, a.routes[0])
	<-calls
	tr.Watch(nil)
	if tr.removal != nil {
		t.Error("waits for an announcement that can't come")
	}
}
