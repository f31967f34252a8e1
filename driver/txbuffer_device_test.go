package driver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// allKinds are the kinds of virtqueue that a TxBuffer stands in front of.
var allKinds = slices.Concat(ringKinds, inOrderKinds)

// A buffer that is closed before its port stops sends what the ring has room
// for; one that is closed afterwards frees it. Either counts.
func TestTxBufferAndTheStopOfItsPort(t *testing.T) {
	for _, kind := range allKinds {
		for _, tt := range []struct {
			early         bool
			sent, dropped uint64
		}{{true, 12, 0}, {false, 0, 12}} {
			t.Run(fmt.Sprintf("%s/closed early=%v", kind.name, tt.early), func(t *testing.T) {
				r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 64}, opts: kind.opts})
				b := newTxBuffer(t, r.tx(), driver.TxBufferConfig{Size: 32, Desc: r.port.Info().TxDesc})
				for range 12 {
					b.Burst([]*mbuf.Buf{r.packet(frame(64, 1))})
				}
				if n := r.port.Stats().TxPackets; n != 0 {
					t.Fatalf("%d packets did not wait", n)
				}
				stop := func() {
					if err := r.port.Stop(); err != nil {
						t.Fatal(err)
					}
				}
				if tt.early {
					b.Close()
					stop()
				} else {
					stop()
					b.Close()
				}
				s := b.Stats()
				if s.Packets != tt.sent || s.Dropped != tt.dropped || r.port.Stats().TxPackets != tt.sent {
					t.Errorf("counted %+v, and the port %d; want %d sent and %d dropped", s, r.port.Stats().TxPackets, tt.sent, tt.dropped)
				}
			})
		}
	}
}

// A buffer of as many packets as there are descriptors, before a ring that is
// half full: what has no room is given up, and nothing is lost.
func TestTxBufferBeforeAFullRing(t *testing.T) {
	r := startRig(t, rigConfig{dev: fakedev.Config{QueueSize: 16}})
	b := newTxBuffer(t, r.tx(), driver.TxBufferConfig{Size: 16, Desc: 16, Retries: 2})
	pkts := take(r.pool, 24)
	for i, p := range pkts {
		copy(p.Append(64), frame(64, byte(i)))
	}
	b.Burst(pkts[:8])
	b.Flush()
	b.Burst(pkts[8:])
	want := driver.TxBufferStats{Full: 1, Asked: 1, Packets: 16, Dropped: 8, Retries: 2}
	if got := b.Stats(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	b.ResetStats()
	if got := b.Stats(); got != (driver.TxBufferStats{}) {
		t.Errorf("after ResetStats: %+v", got)
	}
	frames, err := r.dev.Sent(0)
	if err != nil || len(frames) != 16 {
		t.Fatalf("the device saw %d frames, %v", len(frames), err)
	}
	for i, f := range frames {
		if !slices.Equal(f.Data, frame(64, byte(i))) {
			t.Errorf("frame %d is another one", i)
		}
	}
}

// What a port drops because it can't do what is asked for is the port's to count.
func TestTxBufferLeavesRequestsToThePort(t *testing.T) {
	r := startRig(t, rigConfig{})
	b := newTxBuffer(t, r.tx(), driver.TxBufferConfig{Size: 3})
	bad := r.packet(tcpFrame(ipv4, 100))
	bad.Flags, bad.L2Len, bad.L3Len = mbuf.TxTCPChecksum|mbuf.TxIPv4, 14, 20
	b.Burst([]*mbuf.Buf{r.packet(frame(64, 1)), bad, r.packet(frame(64, 2))})
	if s := r.port.Stats(); s.TxErrors != 1 || s.TxPackets != 2 {
		t.Errorf("the port counted %d errors and %d packets, want 1 and 2", s.TxErrors, s.TxPackets)
	}
	if s := b.Stats(); s.Packets != 3 || s.Dropped != 0 {
		t.Errorf("the buffer counted %+v", s)
	}
}

// TestB06SmallBurstsThroughATxBuffer sends many small bursts, of which few reach
// the threshold by themselves, through rings whose device could have more
// descriptors. Whatever the queue has completed is taken back in time.
func TestB06SmallBurstsThroughATxBuffer(t *testing.T) {
	for _, tt := range []struct{ size, desc, buffer, batch int }{
		{4096, 2048, 32, 1}, {1024, 64, 64, 3}, {1024, 64, 32, 5}, {256, 256, 255, 2}, {256, 32, 1, 1},
	} {
		t.Run(fmt.Sprintf("%d of %d, buffer of %d, batches of %d", tt.desc, tt.size, tt.buffer, tt.batch), func(t *testing.T) {
			// A legacy device: its ring keeps the size that it has.
			r := startRig(t, rigConfig{dev: fakedev.Config{QueueSize: tt.size, Offered: virtio.AnyLayout}, port: port.Config{TxDesc: tt.desc, RxDesc: 32}, buffers: 8192})
			b := newTxBuffer(t, r.tx(), driver.TxBufferConfig{Size: tt.buffer, Desc: tt.desc})
			q := r.dev.Queue(virtio.TxQueue(0))
			for range 20_000 {
				b.Burst(take(r.pool, tt.batch))
				if out := q.Available(); out > tt.desc {
					t.Fatalf("%d packets are outstanding", out)
				}
				for q.Available() > 0 {
					c, err := q.Take()
					if err != nil {
						t.Fatal(err)
					}
					q.Use(uint32(c.Head), 0)
				}
			}
			b.Close()
			if s := b.Stats(); s.Dropped != 0 || s.Packets != uint64(20_000*tt.batch) {
				t.Errorf("counted %+v although everything was completed", s)
			}
		})
	}
}

// TestB08IdleTxBufferReclaims empties the pool into a ring through a buffer.
// When the device has completed, Reclaim alone brings everything back but what
// waits in the buffer, and Poll sends that.
func TestB08IdleTxBufferReclaims(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind.name, func(t *testing.T) {
			r := startRig(t, rigConfig{dev: fakedev.Config{Offered: fakedev.DefaultFeatures | kind.offer, QueueSize: 256}, opts: kind.opts, buffers: 200, port: port.Config{RxDesc: 32}})
			b := newTxBuffer(t, r.tx(), driver.TxBufferConfig{Size: 32, Drain: time.Millisecond})
			sent := 0
			for p := r.pool.Get(); p != nil; p = r.pool.Get() {
				p.Append(64)
				sent += b.Burst([]*mbuf.Buf{p})
			}
			if sent < 150 || b.Waiting() == 0 {
				t.Fatalf("%d sent, %d wait: nothing is tried", sent, b.Waiting())
			}
			if n := b.Reclaim(); n != 0 {
				t.Errorf("Reclaim freed %d packets of a device that has completed none", n)
			}
			if frames, err := r.dev.Sent(0); err != nil || len(frames) != sent-b.Waiting() {
				t.Fatalf("the device saw %d frames, %v", len(frames), err)
			}
			waiting := b.Waiting()
			if n := b.Reclaim(); n != sent-waiting || b.Waiting() != waiting {
				t.Errorf("Reclaim freed %d of %d, and %d of %d wait", n, sent-waiting, b.Waiting(), waiting)
			}
			if n := b.Poll(0) + b.Poll(time.Millisecond); n != waiting {
				t.Errorf("Poll sent %d of %d", n, waiting)
			}
			if frames, err := r.dev.Sent(0); err != nil || len(frames) != waiting || b.Reclaim() != waiting {
				t.Errorf("at the end %d of %d frames, %v", len(frames), waiting, err)
			}
		})
	}
}
