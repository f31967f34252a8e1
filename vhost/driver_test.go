package vhost

import (
	"fmt"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// The driver on a back end that dies: its packets go on, after a restart of the
// port where the device asks for one, and no buffer is lost.
func TestB29DriverGoesOn(t *testing.T) {
	for _, tt := range []struct {
		mask     virtio.Features
		withhold protocolFeatures
		restart  bool
	}{
		{virtio.RingPacked, 0, false},
		{0, 0, false},
		{virtio.InOrder | virtio.EventIdx, protocolInflight, true},
	} {
		t.Run(fmt.Sprintf("without %v and %#x", tt.mask, tt.withhold), func(t *testing.T) {
			m := &mortal{tb: t, path: socketPath(t), cfg: LoopbackConfig{Packed: true, Mask: tt.mask, withhold: tt.withhold}}
			m.live()
			defer func() { m.alive.Close() }()
			f, err := Dial(m.path, FrontendConfig{Log: logTo(t)})
			if err != nil {
				t.Fatal(err)
			}
			f.pause = 1
			p, err := driver.Open(f, driver.Options{Logger: logTo(t)})
			if err != nil {
				t.Fatal(err)
			}
			mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20, NoHuge: true})
			if err != nil {
				t.Fatal(err)
			}
			defer mem.Close()
			defer p.Close()
			pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 1024})
			if err != nil {
				t.Fatal(err)
			}
			needed := make(chan struct{}, 64)
			p.Notify(func(e port.Event) {
				if e == port.NeedsReset {
					needed <- struct{}{}
				}
			})
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(p.Configure(port.Config{Pool: pool}))
			must(p.Start())
			if packed := p.Accepted().Has(virtio.RingPacked); packed == tt.mask.Has(virtio.RingPacked) {
				t.Fatalf("accepted %v", p.Accepted())
			}
			received := 0
			move := func() {
				var pkts [32]*mbuf.Buf
				n := p.RxQueue(0).Burst(pkts[:])
				received += n
				for i := n; i < 8; i++ { // some more
					if b := pool.Get(); b != nil {
						copy(b.Append(64), frameOf(i, 64))
						pkts[n] = b
						n++
					}
				}
				for _, b := range pkts[p.TxQueue(0).Burst(pkts[:n]):n] {
					b.Free()
				}
			}
			for death := range 20 {
				before := received
				eventually(t, fmt.Sprintf("packets after death %d", death), func() bool { move(); return received > before+200 })
				m.die(death%2 == 0)
				m.live()
				if tt.restart {
					select {
					case <-needed:
					case <-time.After(20 * time.Second):
						t.Fatal("nobody said that the port needs a restart")
					}
					must(p.Restart())
				}
			}
			must(p.Stop())
			if free := pool.Free(); free != 1024 {
				t.Errorf("%d buffers of 1024 are free after Stop", free)
			}
		})
	}
}
