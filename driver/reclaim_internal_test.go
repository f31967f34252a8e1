package driver

import (
	"errors"
	"fmt"
	"testing"

	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// countingRing counts the harvests of a ring.
type countingRing struct {
	ring.Driver
	harvests int
}

func (r *countingRing) Harvest(dst []ring.Completion) int {
	r.harvests++
	return r.Driver.Harvest(dst)
}

// TestB06ReclaimFollowsTheDescriptorCount sends through rings of which only a
// part of the descriptors is in use.
func TestB06ReclaimFollowsTheDescriptorCount(t *testing.T) {
	tests := []struct{ size, desc, thresh int }{
		{4096, 4096, 32}, {4096, 2048, 32}, {256, 256, 32}, {1024, 64, 32}, {256, 256, 1}, {256, 256, 255}, {1024, 64, 63},
	}
	perPacket := map[string]float64{}
	for _, tt := range tests {
		name := fmt.Sprintf("%d of %d, threshold %d", tt.desc, tt.size, tt.thresh)
		t.Run(name, func(t *testing.T) {
			dev, port0 := openForReclaim(t, tt.size, port.Config{TxDesc: tt.desc, TxFreeThresh: tt.thresh})
			q := port0.tx[0]
			counting := &countingRing{Driver: q.ring}
			q.ring = counting
			txq := dev.Queue(virtio.TxQueue(0))
			pkts := make([]*mbuf.Buf, 32)
			const packets = 200_000
			for sent := 0; sent < packets; {
				n := q.cache.Get(pkts)
				for _, b := range pkts[:n] {
					b.Renew(64)
				}
				took := q.Burst(pkts[:n])
				if took < n {
					t.Fatalf("took %d of %d although everything was completed", took, n)
				}
				if out := txq.Available(); out > tt.desc {
					t.Fatalf("%d packets are outstanding", out)
				}
				for txq.Available() > 0 {
					c, err := txq.Take()
					if err != nil {
						t.Fatal(err)
					}
					txq.Use(uint32(c.Head), 0)
				}
				sent += took
			}
			perPacket[name] = float64(counting.harvests) / packets
		})
	}
	whole, half := perPacket["4096 of 4096, threshold 32"], perPacket["2048 of 4096, threshold 32"]
	if half > 1.1*whole || whole > 1.1*half {
		t.Errorf("%.4f reclaims a packet with all descriptors, %.4f with half of them", whole, half)
	}
}

func TestB06ThresholdMustBeBelowTheCount(t *testing.T) {
	for _, thresh := range []int{64, 1000} {
		dev := fakedev.New(fakedev.Config{})
		p := openDevice(t, dev, port.Config{TxDesc: 64, TxFreeThresh: thresh})
		if err := p.Start(); !errors.Is(err, port.ErrInvalid) {
			t.Errorf("threshold %d of 64: %v, want ErrInvalid", thresh, err)
		}
	}
}

func openForReclaim(t *testing.T, size int, cfg port.Config) (*fakedev.Device, *Device) {
	t.Helper()
	// A legacy device: its ring keeps the size that it has.
	dev := fakedev.New(fakedev.Config{QueueSize: size, Offered: virtio.AnyLayout})
	p := openDevice(t, dev, cfg)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return dev, p
}

// openDevice opens and configures a port with a pool of its own.
func openDevice(t *testing.T, dev *fakedev.Device, cfg port.Config) *Device {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 40 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	if cfg.Pool, err = mbuf.NewPool(mem, mbuf.PoolConfig{Count: 12000}); err != nil {
		t.Fatal(err)
	}
	p, err := Open(dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if err := p.Configure(cfg); err != nil {
		t.Fatal(err)
	}
	return p
}
