package vhost_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// TestControlQueueOfTheFrontEnd sends the driver's commands to a front end that
// answers them itself, and moves a packet over the pairs that they enabled.
func TestControlQueueOfTheFrontEnd(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, pairs := range []int{1, 2} {
			t.Run(fmt.Sprintf("packed=%v/%d pairs in use", packed, pairs), func(t *testing.T) {
				loop, err := vhost.StartLoopback(vhost.LoopbackConfig{Pairs: 2, Packed: packed})
				if err != nil {
					t.Fatal(err)
				}
				defer loop.Close()
				f, err := loop.Dial(vhost.FrontendConfig{Queues: 2, ControlQueue: true})
				if err != nil {
					t.Fatal(err)
				}
				d, err := driver.Open(f, driver.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				pool := startControlled(t, d, pairs)
				checkCommands(t, d)
				for i := range pairs {
					checkLoop(t, d, pool, i)
				}
			})
		}
	}
}

func startControlled(t *testing.T, d *driver.Device, pairs int) *mbuf.Pool {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 2048})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Configure(port.Config{Pool: pool, RxQueues: pairs, RxOffloads: port.RxVLANFilt}); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	return pool
}

func checkCommands(t *testing.T, d *driver.Device) {
	t.Helper()
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	err := errors.Join(
		d.SetPromiscuous(true), d.SetPromiscuous(false), d.SetAllMulticast(true), d.SetAllMulticast(false),
		d.SetMAC(mac), d.AddMAC(net.HardwareAddr{2, 0, 0, 0, 0, 8}), d.SetVLANFilter(7, true),
	)
	if err != nil {
		t.Error(err)
	}
	if got := d.Info().MAC; !bytes.Equal(got, mac) {
		t.Errorf("MAC %v, want %v", got, mac)
	}
	if err := d.SetMAC(net.HardwareAddr{1, 0, 0, 0, 0, 7}); err == nil {
		t.Error("a multicast address became the port's")
	}
}

// checkLoop sends a frame on a pair and wants it back.
func checkLoop(t *testing.T, d *driver.Device, pool *mbuf.Pool, pair int) {
	t.Helper()
	b := pool.Get()
	copy(b.Append(60), "a frame over a pair that the control queue enabled")
	if d.TxQueue(pair).Burst([]*mbuf.Buf{b}) != 1 {
		t.Fatalf("pair %d took no packet", pair)
	}
	var back [1]*mbuf.Buf
	for deadline := time.Now().Add(5 * time.Second); d.RxQueue(pair).Burst(back[:]) == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("pair %d gave nothing back", pair)
		}
	}
	if !bytes.HasPrefix(back[0].Bytes(), []byte("a frame over a pair")) {
		t.Errorf("pair %d: %q came back", pair, back[0].Bytes())
	}
	back[0].Free()
}
