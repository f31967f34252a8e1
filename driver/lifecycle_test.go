package driver_test

import (
	"errors"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

func TestStartStopCloseInAnyState(t *testing.T) {
	r := newRig(t, rigConfig{})
	if err := r.port.Stop(); err != nil {
		t.Errorf("Stop of a stopped port: %v", err)
	}
	for range 3 {
		if err := r.port.Start(); err != nil {
			t.Fatal(err)
		}
		if err := r.port.Start(); !errors.Is(err, port.ErrState) {
			t.Errorf("second Start: %v, want ErrState", err)
		}
		if err := r.port.Configure(port.Config{Pool: r.pool}); !errors.Is(err, port.ErrState) {
			t.Errorf("Configure while started: %v, want ErrState", err)
		}
		if !r.port.Link().Up {
			t.Error("the link of a started port is down")
		}
		if err := r.port.Stop(); err != nil {
			t.Fatal(err)
		}
		if r.port.Link().Up {
			t.Error("the link of a stopped port is up")
		}
	}
	if err := r.port.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.port.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !r.dev.Closed() {
		t.Error("the device was not given back")
	}
	if err := r.port.Start(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("Start after Close: %v, want ErrClosed", err)
	}
}

func TestFailedStartLeavesNothingBehind(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.dev.FailSetup(virtio.TxQueue(0))
	for range 3 {
		if err := r.port.Start(); err == nil {
			t.Fatal("Start succeeded")
		}
		if free := r.pool.Free(); free != r.pool.Size() {
			t.Fatalf("%d of %d buffers are free", free, r.pool.Size())
		}
		if s, _ := r.dev.Status(); s != 0 {
			t.Errorf("the device is left in status %v", s)
		}
	}
}

func TestLinkEvents(t *testing.T) {
	r := startRig(t, rigConfig{})
	events := make(chan port.Event, 2)
	r.port.Notify(func(e port.Event) { events <- e })
	for _, up := range []bool{false, true} {
		r.dev.SetLink(up)
		select {
		case e := <-events:
			if e != port.LinkChange || r.port.Link().Up != up {
				t.Errorf("event %v, link up %v, want %v", e, r.port.Link().Up, up)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("no event")
		}
	}
}

func TestStatsSurviveStopAndReset(t *testing.T) {
	r := startRig(t, rigConfig{})
	send := func() { r.complete(r.send(r.packet(frame(100, 1)))) }
	send()
	send()
	if s := r.port.Stats(); s.TxPackets != 2 || s.TxBytes != 200 || s.Tx[0].Packets != 2 {
		t.Errorf("%+v", s)
	}
	r.port.ResetStats()
	send()
	if err := r.port.Stop(); err != nil {
		t.Fatal(err)
	}
	if s := r.port.Stats(); s.TxPackets != 1 || s.TxBytes != 100 {
		t.Errorf("after reset, one packet and stop: %+v", s)
	}
	if err := r.port.Start(); err != nil {
		t.Fatal(err)
	}
	send()
	if s := r.port.Stats(); s.TxPackets != 2 {
		t.Errorf("after another start: %+v", s)
	}
}

func TestQueuePairsAreEnabled(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{Pairs: 4}, port: port.Config{RxQueues: 1, TxQueues: 3}, buffers: 2048})
	if got := r.dev.Pairs(); got != 3 {
		t.Errorf("%d pairs enabled, want 3", got)
	}
	for i := range 3 {
		f := frame(80, byte(i))
		if n := r.port.TxQueue(i).Burst([]*mbuf.Buf{r.packet(f)}); n != 1 {
			t.Fatalf("queue %d took %d", i, n)
		}
		if frames, err := r.dev.Sent(i); err != nil || len(frames) != 1 {
			t.Errorf("pair %d: %d frames, %v", i, len(frames), err)
		}
	}
	if s := r.port.Stats(); len(s.Tx) != 3 || s.Tx[2].Packets != 1 || s.TxPackets != 3 {
		t.Errorf("%+v", s)
	}
}

func TestMACIsMadeUpWithoutOne(t *testing.T) {
	dev := fakedev.New(fakedev.Config{Offered: virtio.Version1})
	d, err := driver.Open(dev, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mac := d.Info().MAC
	if len(mac) != 6 || mac[0]&3 != 2 {
		t.Errorf("made-up MAC %v: must be unicast and locally administered", mac)
	}
}

func TestLinkWithoutStatusIsUp(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{Offered: virtio.Version1}})
	r.dev.SetLink(false) // the device has no way to tell
	if !r.port.Link().Up {
		t.Error("the link of a device without STATUS is down")
	}
}

func TestRemovalIsAnEvent(t *testing.T) {
	r := startRig(t, rigConfig{})
	events := make(chan port.Event, 4)
	r.port.Notify(func(e port.Event) { events <- e })
	r.dev.Remove()
	for deadline := time.After(5 * time.Second); ; {
		select {
		case e := <-events:
			if e != port.Removed {
				continue
			}
		case <-deadline:
			t.Fatal("nobody was told")
		}
		return
	}
}
