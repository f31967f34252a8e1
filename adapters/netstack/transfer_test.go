package netstack

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"vionet/driver"
	"vionet/port"
	"vionet/vhost"
	"vionet/virtio"
)

// way is a way to tie two hosts.
type way struct {
	name      string
	ends      ends
	near, far Config
	nearLarge bool // near receives what far sends uncut
	farLarge  bool
}

// tie makes the two hosts, with buffers from one pool.
func (w *way) tie(tb testing.TB) (near, far *host) {
	tb.Helper()
	pool := newPool(tb, 8192)
	nearPort, farPort := w.ends(tb)
	w.near.Pool, w.far.Pool = pool, pool
	return newHost(tb, nearPort, 1, w.near), newHost(tb, farPort, 2, w.far)
}

// wayOf is the way of that name.
func wayOf(name string) *way {
	for i := range ways {
		if ways[i].name == name {
			return &ways[i]
		}
	}
	panic(name)
}

var ways = []way{
	{name: "cable", ends: cable},
	{name: "split", ends: virtual(vhost.PortConfig{TSO: true}, driver.Options{NoPacked: true}), nearLarge: true, farLarge: true},
	{name: "packed", ends: virtual(vhost.PortConfig{TSO: true, Packed: true}, driver.Options{}), nearLarge: true, farLarge: true},
	{name: "no offloads", ends: virtual(vhost.PortConfig{Packed: true}, driver.Options{}),
		near: Config{WithoutRx: ^port.RxOffloads(0), WithoutTx: ^port.TxOffloads(0)},
		far:  Config{WithoutRx: ^port.RxOffloads(0), WithoutTx: ^port.TxOffloads(0)}},
	{name: "checksums alone", ends: virtual(vhost.PortConfig{Packed: true}, driver.Options{})},
	{name: "offloads of the sender alone", ends: virtual(vhost.PortConfig{TSO: true, Mask: largeRx | virtio.NetGuestCSUM}, driver.Options{}), nearLarge: true},
	{name: "two queues", ends: virtual(vhost.PortConfig{TSO: true, Packed: true, Queues: 2}, driver.Options{}),
		near: Config{Queues: 2}, far: Config{Queues: 2}, nearLarge: true, farLarge: true},
	{name: "jumbo frames, spinning", ends: virtual(vhost.PortConfig{Packed: true, MTU: 9000}, driver.Options{}),
		near: Config{MTU: 9000, Spin: 20 * time.Microsecond}, far: Config{MTU: 9000, Spin: 20 * time.Microsecond}},
}

// HTTP both ways, over IPv4 and IPv6, with the data compared.
func TestTransfer(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			near, far := w.tie(t)
			near.serve()
			far.serve()
			for ipv := range 2 {
				for _, c := range []struct{ from, to *host }{{near, far}, {far, near}} {
					client := c.from.client(c.to, ipv)
					must(t, errors.Join(get(client, amount(4<<20)), post(client, amount(4<<20)), get(client, 0)))
				}
			}
			for _, h := range []*host{near, far} {
				if s := h.stack.Stats(); s.TCP.ChecksumErrors.Value()+s.IP.MalformedPacketsReceived.Value() != 0 {
					t.Errorf("%d bad checksums, %d malformed packets", s.TCP.ChecksumErrors.Value(), s.IP.MalformedPacketsReceived.Value())
				}
				s := h.link.Port().Stats()
				want := map[*host]bool{near: w.nearLarge, far: w.farLarge}[h]
				if large := s.RxBytes > 1514*s.RxPackets; large != want && w.near.MTU == 0 {
					t.Errorf("received %d bytes in %d packets, want packets larger than a frame: %v", s.RxBytes, s.RxPackets, want)
				}
				if s.RxErrors+s.TxErrors+s.RxNoBuf+h.link.Stats().Refused != 0 {
					t.Errorf("port %+v, endpoint %+v", s, h.link.Stats())
				}
			}
		})
	}
}

// A hundred million bytes each way at the same time.
func TestLongTransfer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; skipped by -short")
	}
	near, far := wayOf("two queues").tie(t)
	near.serve()
	far.serve()
	begin := time.Now()
	var both errgroup.Group
	both.Go(func() error { return get(near.client(far, 0), 100e6) })
	both.Go(func() error { return get(far.client(near, 0), 100e6) })
	must(t, both.Wait())
	t.Logf("%.2f Gb/s each way", 100e6*8/1e9/time.Since(begin).Seconds())
}

// 64 connections at once, which use both queues.
func TestManyConnections(t *testing.T) {
	for _, name := range []string{"two queues", "cable"} {
		t.Run(name, func(t *testing.T) {
			near, far := wayOf(name).tie(t)
			far.serve()
			var all errgroup.Group
			for i := range 64 {
				all.Go(func() error {
					client := near.client(far, i%2)
					return errors.Join(get(client, amount(256<<10)), post(client, amount(64<<10)))
				})
			}
			must(t, all.Wait())
			for i, q := range far.link.Port().Stats().Tx {
				if q.Packets == 0 {
					t.Errorf("queue %d sent nothing", i)
				}
			}
		})
	}
}

// A port that stops in the middle of transfers and starts again has lost none.
func TestStopAndStart(t *testing.T) {
	for _, name := range []string{"split", "two queues", "cable"} {
		t.Run(name, func(t *testing.T) {
			near, far := wayOf(name).tie(t)
			far.serve()
			var all errgroup.Group
			for range 4 {
				client := near.client(far, 0)
				// Connected: a neighbour that is looked for in vain is unreachable.
				must(t, get(client, 0))
				all.Go(func() error { return errors.Join(get(client, amount(8<<20)), post(client, amount(8<<20))) })
			}
			for _, h := range []*host{far, near, far} {
				time.Sleep(20 * time.Millisecond)
				must(t, h.link.Stop())
				must(t, h.link.Stop())
				must(t, h.link.Start())
				must(t, h.link.Start())
			}
			must(t, all.Wait())
		})
	}
}

// Close in the middle of transfers ends them with errors, and leaves nothing.
func TestCloseInTheMiddle(t *testing.T) {
	for _, name := range []string{"two queues", "cable"} {
		t.Run(name, func(t *testing.T) {
			near, far := wayOf(name).tie(t)
			far.serve()
			var all errgroup.Group
			for range 8 {
				client := near.client(far, 0)
				client.Timeout = 300 * time.Millisecond
				all.Go(func() error { return get(client, 1<<40) })
			}
			time.Sleep(50 * time.Millisecond)
			far.link.Close()
			far.link.Close()
			var late net.Error
			if err := all.Wait(); err == nil || !errors.As(err, &late) || !late.Timeout() {
				t.Errorf("the transfer ended with %v", err)
			}
			if far.link.IsAttached() || far.stack.HasNIC(nic) {
				t.Error("the interface is still there")
			}
			if err := far.link.Start(); !errors.Is(err, port.ErrClosed) {
				t.Errorf("start after close: %v", err)
			}
			if err := far.link.Stop(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("stop after close: %v", err)
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			near, far := w.tie(b)
			far.serve()
			client := near.client(far, 0)
			const size = 32 << 20
			b.SetBytes(size)
			for b.Loop() {
				must(b, get(client, size))
			}
		})
	}
}
