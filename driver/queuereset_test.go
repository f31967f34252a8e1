package driver_test

import (
	"errors"
	"testing"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

func TestQueueResetLeavesTheOthersAlone(t *testing.T) {
	r := startRig(t, rigConfig{
		dev:  fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.RingReset, Pairs: 2},
		port: port.Config{RxQueues: 2, TxQueues: 2}, buffers: 2048,
	})
	// The device breaks a rule on both queues of pair 0.
	r.dev.Queue(virtio.RxQueue(0)).Use(9999, 64)
	r.dev.Queue(virtio.TxQueue(0)).Use(9999, 0)
	r.receive(4)
	r.tx().Reclaim()
	if r.rx().Err() == nil || r.tx().Err() == nil {
		t.Fatal("the queues are not broken")
	}
	b := r.packet(frame(70, 1))
	if n := r.port.TxQueue(1).Burst([]*mbuf.Buf{b}); n != 1 {
		t.Fatalf("pair 1 took %d packets", n)
	}
	if err := errors.Join(r.port.ResetRxQueue(0), r.port.ResetTxQueue(0)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.rx().Err(), r.tx().Err()); err != nil {
		t.Errorf("after the reset: %v", err)
	}
	r.complete(r.send(r.packet(frame(64, 2))))
	if err := r.dev.Deliver(0, virtio.NetHeader{}, frame(64, 3)); err != nil {
		t.Fatal(err)
	}
	compareFrames(t, r.receive(4), [][]byte{frame(64, 3)})
	if frames, err := r.dev.Sent(1); err != nil || len(frames) != 1 {
		t.Errorf("pair 1 lost its packet: %d frames, %v", len(frames), err)
	}
	if err := r.port.ResetRxQueue(2); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("queue 2: %v, want ErrInvalid", err)
	}
}

func TestQueueResetNeedsItsFeature(t *testing.T) {
	r := startRig(t, rigConfig{})
	if err := r.port.ResetTxQueue(0); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("%v, want ErrNotSupported", err)
	}
}
