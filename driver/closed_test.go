package driver_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Whatever is asked of a closed device has one answer, net.ErrClosed. Close itself
// may be called again.
func TestClosedDevice(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{Offered: ^virtio.Features(0)}, port: port.Config{RxInterrupts: true, RSS: &port.RSS{}}})
	d := r.port
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	umem, err := driver.NewUMEM(r.mem, driver.UMEMConfig{Frames: 16, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer umem.Close(t.Context())
	_, xsk := d.NewXSK(umem, driver.XSKConfig{TxSize: 16})
	_, rings := d.RingMemory(1)
	for name, err := range map[string]error{
		"Configure": d.Configure(port.Config{Pool: r.pool}), "Start": d.Start(), "Stop": d.Stop(), "Restart": d.Restart(),
		"SetPromiscuous": d.SetPromiscuous(true), "SetAllMulticast": d.SetAllMulticast(true), "SetRxMode": d.SetRxMode(port.RxNoBroadcast, true),
		"SetVLANFilter": d.SetVLANFilter(7, true), "AddMAC": d.AddMAC(mac), "SetMAC": d.SetMAC(mac),
		"SetMulticast": d.SetMulticast([]net.HardwareAddr{{1, 0, 0, 0, 0, 9}}), "SetRxCoalescing": d.SetRxCoalescing(port.Coalescing{}),
		"SetTxCoalescing": d.SetTxCoalescing(port.Coalescing{}), "SetRxOffloads": d.SetRxOffloads(0),
		"SetRSSKey": d.SetRSSKey(make([]byte, 40)), "SetRSSTable": d.SetRSSTable([]uint16{0}), "SetRSSTypes": d.SetRSSTypes(0),
		"ResetRxQueue": d.ResetRxQueue(0), "ResetTxQueue": d.ResetTxQueue(0), "NewXSK": xsk, "RingMemory": rings,
		"RxQueue": d.RxQueue(0).Err(), "TxQueue": d.TxQueue(0).Err(),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v, want net.ErrClosed", name, err)
		}
	}
	if link := d.Link(); link.Up {
		t.Errorf("the link is up: %+v", link)
	}
	if d.Info().Name != "fake0" || d.Name() != "fake0" {
		t.Errorf("it has forgotten its name: %v", d.Info())
	}
}

// A queue ends with its port: on one that somebody still holds nothing moves, and
// it touches no memory that was given back.
func TestQueuesEndWithTheirPort(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{RxInterrupts: true, TxInterrupts: true}})
	var rx port.RxQueue
	var tx port.TxQueue
	for _, end := range []func() error{r.port.Stop, r.port.Close} {
		if err := r.port.Start(); err != nil && !errors.Is(err, port.ErrState) {
			t.Fatal(err)
		}
		rx, tx = r.rx(), r.tx()
		if rx.Err() != nil || tx.Err() != nil {
			t.Fatalf("errors of queues that run: %v, %v", rx.Err(), tx.Err())
		}
		b := r.packet(frame(64, 1))
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if got := rx.Burst(make([]*mbuf.Buf, 8)) + tx.Burst([]*mbuf.Buf{b}) + tx.Reclaim(); got != 0 {
			t.Errorf("%d packets moved", got)
		}
		b.Free()
		checkEnded(t, rx, tx, port.ErrClosed)
	}
	checkEnded(t, r.rx(), r.tx(), port.ErrClosed)
	if err := r.mem.Close(); err != nil {
		t.Fatal(err)
	}
	checkEnded(t, rx, tx, port.ErrClosed) // where a look at the ring would be the last one
}

// In place of a queue that is not there, there is one that says why.
func TestQueuesThatAreNotThere(t *testing.T) {
	r := newRig(t, rigConfig{port: port.Config{RxInterrupts: true, TxInterrupts: true}})
	checkEnded(t, r.rx(), r.tx(), port.ErrState)
	if err := r.port.Start(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 1} {
		checkEnded(t, r.port.RxQueue(i), r.port.TxQueue(i), port.ErrInvalid)
	}
	if r.rx().Err() != nil || r.tx().Err() != nil {
		t.Errorf("the queues that are there have errors: %v, %v", r.rx().Err(), r.tx().Err())
	}
}

// checkEnded makes sure that nothing moves on two queues, and that they say why.
func checkEnded(t *testing.T, rx port.RxQueue, tx port.TxQueue, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, rxAlarm := port.AlarmOf(rx)
	_, txAlarm := port.AlarmOf(tx)
	for name, err := range map[string]error{
		"rx.Err": rx.Err(), "rx.Wait": rx.Wait(ctx), "rx.Alarm": rxAlarm,
		"tx.Err": tx.Err(), "tx.Wait": tx.(port.TxWaiter).Wait(ctx, 1), "tx.Alarm": txAlarm,
	} {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if n := rx.Burst(make([]*mbuf.Buf, 1)) + tx.Burst(nil) + tx.Reclaim(); n != 0 {
		t.Errorf("%d packets moved", n)
	}
}
