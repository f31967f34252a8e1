package vhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// portRig is a started port, with a pool of its own.
type portRig struct {
	tb   testing.TB
	port port.Port
	path string
	pool *mbuf.Pool
}

const rigBuffers = 2048

func newPool(tb testing.TB) *mbuf.Pool {
	tb.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: rigBuffers*mbuf.Stride(mbuf.DefaultSize) + 4<<20, NoHuge: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: rigBuffers})
	if err != nil {
		tb.Fatal(err)
	}
	return pool
}

func checkWhole(tb testing.TB, pool *mbuf.Pool) {
	if free := pool.Free(); free != pool.Size() {
		tb.Errorf("%d of %d buffers are back in the pool", free, pool.Size())
	}
}

// newPortRig starts a port; the test ends with all its buffers in the pool.
func newPortRig(tb testing.TB, cfg PortConfig, conf port.Config) *portRig {
	tb.Helper()
	r := &portRig{tb: tb, pool: newPool(tb), path: cfg.Path}
	if r.path == "" {
		r.path = socketPath(tb)
	}
	cfg.Path, cfg.Log, conf.Pool = r.path, logTo(tb), r.pool
	var err error
	if r.port, err = NewPort(cfg); err != nil {
		tb.Fatal(err)
	}
	r.must(r.port.Configure(conf))
	r.must(r.port.Start())
	tb.Cleanup(func() {
		r.must(r.port.Close())
		r.must(r.port.Close())
		checkWhole(tb, r.pool)
	})
	return r
}

func (r *portRig) must(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

// guest is the driver at the other end.
type guest struct {
	tb   testing.TB
	f    *Frontend
	port *driver.Device
	pool *mbuf.Pool
}

// startGuest connects, and starts the driver.
func startGuest(tb testing.TB, path string, opts driver.Options, conf port.Config) *guest {
	tb.Helper()
	f, err := Dial(path, FrontendConfig{Queues: max(conf.RxQueues, 1), Log: logTo(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	g := &guest{tb: tb, f: f, pool: newPool(tb)}
	opts.Logger, conf.Pool = logTo(tb), g.pool
	if g.port, err = driver.Open(f, opts); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.leave)
	for _, err := range []error{g.port.Configure(conf), g.port.Start()} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	return g
}

func (g *guest) leave() {
	if err := g.port.Close(); err != nil {
		g.tb.Error(err)
	}
	checkWhole(g.tb, g.pool)
}

// packetOf makes a packet whose segments hold at most room bytes each.
func packetOf(tb testing.TB, pool *mbuf.Pool, frame []byte, room int) *mbuf.Buf {
	tb.Helper()
	var head *mbuf.Buf
	for head == nil || len(frame) > 0 {
		b := pool.Get()
		if b == nil {
			tb.Fatal("the pool is empty")
		}
		frame = frame[copy(b.Append(min(len(frame), room)), frame):]
		if head == nil {
			head = b
		} else {
			head.Chain(b)
		}
	}
	return head
}

func bytesOf(b *mbuf.Buf) (frame []byte) {
	for seg := b; seg != nil; seg = seg.Next() {
		frame = append(frame, seg.Bytes()...)
	}
	return frame
}

// pass sends b and gives what arrives.
func pass(tb testing.TB, tx port.TxQueue, rx port.RxQueue, b *mbuf.Buf) *mbuf.Buf {
	tb.Helper()
	eventually(tb, "room to send", func() bool { return tx.Burst([]*mbuf.Buf{b}) == 1 })
	return receive(tb, rx)
}

func receive(tb testing.TB, rx port.RxQueue) *mbuf.Buf {
	tb.Helper()
	var got [1]*mbuf.Buf
	eventually(tb, "a packet", func() bool { return rx.Burst(got[:]) == 1 })
	return got[0]
}

// quiet says that nothing arrives.
func quiet(tb testing.TB, rx port.RxQueue) {
	tb.Helper()
	var got [1]*mbuf.Buf
	if rx.Burst(got[:]) != 0 {
		tb.Errorf("%x arrived", bytesOf(got[0]))
		got[0].Free()
	}
}

// Frames of many lengths both ways, over rings of all kinds.
func TestPortMovesFrames(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, mergeable := range []bool{false, true} {
			for _, events := range []bool{false, true} {
				for _, pairs := range []int{1, 2} {
					t.Run(fmt.Sprintf("packed=%v,mergeable=%v,events=%v,pairs=%d", packed, mergeable, events, pairs), func(t *testing.T) {
						conf := port.Config{RxQueues: pairs, TxQueues: pairs}
						r := newPortRig(t, PortConfig{Queues: pairs, Packed: packed}, conf)
						lengths := []int{60, 61, 1514, 2036}
						if mergeable {
							conf.MTU, conf.TxOffloads = 9000, port.TxMultiSegs
							lengths = append(lengths, 2049, 4096, 9014)
						}
						g := startGuest(t, r.path, driver.Options{NoMergeable: !mergeable, EventIdx: events, InOrder: events}, conf)
						if got := g.port.Accepted(); got.Has(virtio.RingPacked) != packed || got.Has(virtio.NetMrgRxbuf) != mergeable || got.Has(virtio.EventIdx) != events {
							t.Fatalf("negotiated %v", got)
						}
						var bytesTotal, count uint64
						for i := range 300 {
							pair, n := i%pairs, lengths[i%len(lengths)]
							frame := frameOf(i, n)
							count++
							bytesTotal += uint64(n)
							for _, way := range []struct {
								name string
								pool *mbuf.Pool
								tx   port.TxQueue
								rx   port.RxQueue
							}{
								{"from the guest", g.pool, g.port.TxQueue(pair), r.port.RxQueue(pair)},
								{"to the guest", r.pool, r.port.TxQueue(pair), g.port.RxQueue(pair)},
							} {
								b := pass(t, way.tx, way.rx, packetOf(t, way.pool, frame, 2048))
								if got := bytesOf(b); !bytes.Equal(got, frame) || b.PacketLen() != n || b.Flags != 0 {
									t.Fatalf("frame %d of %d bytes %s: %d bytes, flags %#x\n%x", i, n, way.name, b.PacketLen(), b.Flags, got)
								}
								b.Free()
							}
						}
						s := r.port.Stats()
						if s.RxPackets != count || s.TxPackets != count || s.RxBytes != bytesTotal || s.TxBytes != bytesTotal || s.RxErrors+s.TxErrors+s.RxNoBuf != 0 || len(s.Rx) != pairs || s.Rx[pairs-1].Packets == 0 {
							t.Errorf("stats %+v, want %d packets and %d bytes each way", s, count, bytesTotal)
						}
						r.port.ResetStats()
						if s := r.port.Stats(); s.RxPackets+s.TxPackets+s.RxBytes+s.TxBytes != 0 {
							t.Errorf("after ResetStats %+v", s)
						}
					})
				}
			}
		}
	}
}

// A frame longer than what a guest without mergeable buffers has is dropped, and
// does not hold up the next one.
func TestPortDropsWhatTheGuestCannotTake(t *testing.T) {
	r := newPortRig(t, PortConfig{}, port.Config{})
	g := startGuest(t, r.path, driver.Options{NoMergeable: true}, port.Config{})
	b := pass(t, r.port.TxQueue(0), g.port.RxQueue(0), nextTo(t, r))
	if got := bytesOf(b); !bytes.Equal(got, frameOf(1, 60)) {
		t.Errorf("got %x", got)
	}
	b.Free()
	if s := r.port.Stats(); s.TxPackets != 1 || s.TxErrors != 1 {
		t.Errorf("stats %+v, want one sent and one dropped", s)
	}
}

// nextTo sends a frame that is too long, and gives one that is not.
func nextTo(t *testing.T, r *portRig) *mbuf.Buf {
	long := packetOf(t, r.pool, frameOf(0, 4000), 2048)
	if n := r.port.TxQueue(0).Burst([]*mbuf.Buf{long}); n != 1 {
		t.Fatalf("Burst = %d", n)
	}
	return packetOf(t, r.pool, frameOf(1, 60), 2048)
}

// The pool runs dry: frames wait with the guest, and come when there are buffers.
func TestPortOutOfBuffers(t *testing.T) {
	for _, packed := range []bool{false, true} {
		r := newPortRig(t, PortConfig{Packed: packed}, port.Config{})
		g := startGuest(t, r.path, driver.Options{}, port.Config{})
		var held []*mbuf.Buf
		for b := r.pool.Get(); b != nil; b = r.pool.Get() {
			held = append(held, b)
		}
		for i := range 5 {
			g.port.TxQueue(0).Burst([]*mbuf.Buf{packetOf(t, g.pool, frameOf(i, 80), 2048)})
		}
		quiet(t, r.port.RxQueue(0))
		if s := r.port.Stats(); s.RxNoBuf == 0 {
			t.Errorf("packed=%v: nobody counted that buffers are short", packed)
		}
		for _, b := range held {
			b.Free()
		}
		for i := range 5 {
			b := receive(t, r.port.RxQueue(0))
			if got := bytesOf(b); !bytes.Equal(got, frameOf(i, 80)) {
				t.Errorf("packed=%v, frame %d: %x", packed, i, got)
			}
			b.Free()
		}
	}
}

// The link follows the front end, and bursts are empty without one.
func TestPortLink(t *testing.T) {
	r := newPortRig(t, PortConfig{Name: "net_vhost3"}, port.Config{})
	events := make(chan port.Event, 16)
	r.port.Notify(func(e port.Event) { events <- e })
	wait := func(up bool) {
		t.Helper()
		select {
		case e := <-events:
			if e != port.LinkChange || r.port.Link().Up != up {
				t.Fatalf("event %v, link %+v", e, r.port.Link())
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nobody told that the link has changed")
		}
	}
	idle := func() {
		t.Helper()
		b := packetOf(t, r.pool, frameOf(0, 60), 2048)
		if n := r.port.TxQueue(0).Burst([]*mbuf.Buf{b}); n != 0 {
			t.Errorf("sent %d to nobody", n)
		} else {
			b.Free()
		}
		quiet(t, r.port.RxQueue(0))
	}
	if r.port.Link().Up {
		t.Error("the link is up without a front end")
	}
	idle()
	for range 3 {
		g := startGuest(t, r.path, driver.Options{}, port.Config{})
		wait(true)
		told := make(chan struct{}, 8)
		g.port.Notify(func(port.Event) { told <- struct{}{} })
		if !g.port.Link().Up {
			t.Error("the guest's link is down")
		}
		// The port stops: so the guest sees.
		r.must(r.port.Stop())
		<-told
		if g.port.Link().Up || r.port.Link().Up {
			t.Error("the link of a stopped port is up")
		}
		r.must(r.port.Start())
		<-told
		if !g.port.Link().Up || !r.port.Link().Up {
			t.Error("the link is down after a restart")
		}
		g.leave()
		wait(false)
		idle()
	}
	info := r.port.Info()
	if info.Name != "net_vhost3" || info.Driver != "net_vhost" || info.MAC.String() != "56:48:4f:53:54:03" || info.MTU != 1500 {
		t.Errorf("%+v", info)
	}
}

// Guests die and come back while both sides send, and the port stops and starts.
func TestPortGuestDies(t *testing.T) {
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprintf("packed=%v", packed), func(t *testing.T) {
			r := newPortRig(t, PortConfig{Packed: packed}, port.Config{})
			maps := countMappings(t)
			var work sync.WaitGroup
			stop := make(chan struct{})
			pump := func() { work.Go(func() { pumpPort(r, stop) }) }
			pump()
			for death := range 12 {
				g := startGuest(t, r.path, driver.Options{}, port.Config{})
				received := 0
				eventually(t, "frames", func() bool {
					received += exchange(g.tb, g.port, g.pool)
					return received > 300
				})
				switch death % 3 {
				case 0: // the connection breaks under traffic
					g.f.peer.channel.conn.sock.Close()
				case 1: // the port stops under it
					close(stop)
					work.Wait()
					r.must(r.port.Stop())
					checkWhole(t, r.pool)
					r.must(r.port.Start())
					stop = make(chan struct{})
					pump()
				}
				g.port.Close() // which a broken connection may disturb
				checkWhole(t, g.pool)
				if err := g.pool.Memory().Close(); err != nil {
					t.Error(err)
				}
			}
			close(stop)
			work.Wait()
			eventually(t, "mappings given back", func() bool { return countMappings(t) <= maps })
			if s := r.port.Stats(); s.RxPackets == 0 || s.TxPackets == 0 || s.RxErrors+s.TxErrors != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// pumpPort exchanges packets until stop is closed.
func pumpPort(r *portRig, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			exchange(r.tb, r.port, r.pool)
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// exchange sends a burst and receives one, and gives the number received.
func exchange(tb testing.TB, p port.Port, pool *mbuf.Pool) int {
	var pkts [16]*mbuf.Buf
	n := 0
	for ; n < len(pkts); n++ {
		if pkts[n] = pool.Get(); pkts[n] == nil {
			break
		}
		copy(pkts[n].Append(90), frameOf(n, 90))
	}
	for _, b := range pkts[p.TxQueue(0).Burst(pkts[:n]):n] {
		b.Free()
	}
	n = p.RxQueue(0).Burst(pkts[:])
	for _, b := range pkts[:n] {
		if got := bytesOf(b); len(got) != 90 || got[14] != '0' {
			tb.Errorf("received %x", got)
		}
		b.Free()
	}
	return n
}

// The port is closed while a guest sends.
func TestPortClosesUnderTraffic(t *testing.T) {
	r := newPortRig(t, PortConfig{Packed: true}, port.Config{})
	g := startGuest(t, r.path, driver.Options{}, port.Config{})
	received := 0
	eventually(t, "frames", func() bool {
		exchange(t, r.port, r.pool)
		received += exchange(t, g.port, g.pool)
		return received > 100
	})
	r.must(r.port.Close())
	exchange(t, g.port, g.pool)
	if err := r.port.Start(); !errors.Is(err, port.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}

// The port sleeps until the guest sends.
func TestPortWait(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, events := range []bool{false, true} {
			r := newPortRig(t, PortConfig{Packed: packed}, port.Config{RxInterrupts: true})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			rx := r.port.RxQueue(0)
			g := startGuest(t, r.path, driver.Options{EventIdx: events}, port.Config{})
			var sender sync.WaitGroup
			sender.Go(func() {
				for i := range 200 {
					g.port.TxQueue(0).Burst([]*mbuf.Buf{packetOf(t, g.pool, frameOf(i, 70), 2048)})
					if i%10 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
			})
			var pkts [8]*mbuf.Buf
			for received := 0; received < 200; {
				if err := rx.Wait(ctx); err != nil {
					t.Fatalf("packed=%v, events=%v: after %d packets: %v", packed, events, received, err)
				}
				n := rx.Burst(pkts[:])
				received += n
				for _, b := range pkts[:n] {
					b.Free()
				}
			}
			sender.Wait()
			short, end := context.WithTimeout(t.Context(), time.Millisecond)
			if err := rx.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait for nothing: %v", err)
			}
			end()
			waited := make(chan error)
			go func() { waited <- rx.Wait(context.Background()) }()
			time.Sleep(time.Millisecond)
			r.must(r.port.Stop())
			if err := <-waited; !errors.Is(err, port.ErrClosed) {
				t.Errorf("Wait while the port stops: %v", err)
			}
			g.leave()
		}
	}
	r := newPortRig(t, PortConfig{}, port.Config{})
	if err := r.port.RxQueue(0).Wait(t.Context()); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("Wait of a port without interrupts: %v", err)
	}
}

// The port connects to front ends that listen, whichever is there first.
func TestPortClient(t *testing.T) {
	path := socketPath(t)
	r := newPortRig(t, PortConfig{Path: path, Client: true, Packed: true}, port.Config{})
	for range 2 {
		f, err := Dial(path, FrontendConfig{Server: true, ConnectTimeout: 20 * time.Second, Log: logTo(t)})
		r.must(err)
		p, err := driver.Open(f, driver.Options{Logger: logTo(t)})
		r.must(err)
		pool := newPool(t)
		r.must(p.Configure(port.Config{Pool: pool}))
		r.must(p.Start())
		eventually(t, "the link", func() bool { return r.port.Link().Up })
		b := pass(t, p.TxQueue(0), r.port.RxQueue(0), packetOf(t, pool, frameOf(0, 100), 2048))
		if got := bytesOf(b); !bytes.Equal(got, frameOf(0, 100)) {
			t.Errorf("got %x", got)
		}
		b.Free()
		r.must(p.Close())
		checkWhole(t, pool)
	}
}

// A guest that breaks a rule of the ring stops that queue; a reset mends it.
func TestPortHostileGuest(t *testing.T) {
	r := newPortRig(t, PortConfig{}, port.Config{})
	f, err := Dial(r.path, FrontendConfig{QueueSize: rigSize, Log: logTo(t)})
	r.must(err)
	raw := newRig(t, f, 1)
	raw.start(plain, 1)
	rx := r.port.RxQueue(0)
	raw.send(0, virtio.NetHeader{}, nil) // no frame behind the header
	raw.send(0, virtio.NetHeader{}, frameOf(0, 60))
	quiet(t, rx)
	quiet(t, rx)
	if rx.Err() == nil || r.port.TxQueue(0).Err() != nil {
		t.Errorf("errors %v and %v", rx.Err(), r.port.TxQueue(0).Err())
	}
	raw.start(plain, 1)
	raw.send(0, virtio.NetHeader{}, frameOf(1, 60))
	b := receive(t, rx)
	if got := bytesOf(b); !bytes.Equal(got, frameOf(1, 60)) || rx.Err() != nil {
		t.Errorf("got %x, error %v", got, rx.Err())
	}
	b.Free()
}

// The guest is told the MTU.
func TestPortMTU(t *testing.T) {
	r := newPortRig(t, PortConfig{MTU: 4000}, port.Config{})
	g := startGuest(t, r.path, driver.Options{}, port.Config{})
	if info := g.port.Info(); info.MaxMTU != 4000 {
		t.Errorf("the guest's MTU is at most %d", info.MaxMTU)
	}
}

func TestPortConfigureRefuses(t *testing.T) {
	r := newPortRig(t, PortConfig{}, port.Config{})
	if err := r.port.Configure(port.Config{Pool: r.pool}); !errors.Is(err, port.ErrState) {
		t.Errorf("Configure of a started port: %v", err)
	}
	if err := r.port.Start(); !errors.Is(err, port.ErrState) {
		t.Errorf("second Start: %v", err)
	}
	r.must(r.port.Stop())
	for _, tt := range []struct {
		conf port.Config
		want error
	}{
		{port.Config{}, port.ErrInvalid},
		{port.Config{Pool: r.pool, RxQueues: 2}, port.ErrInvalid},
		{port.Config{Pool: r.pool, MTU: 67}, port.ErrInvalid},
		{port.Config{Pool: r.pool, RxOffloads: port.RxTCPLRO}, port.ErrNotSupported},
		{port.Config{Pool: r.pool, TxOffloads: port.TxTCPTSO}, port.ErrNotSupported},
		{port.Config{Pool: r.pool, RSS: &port.RSS{}}, port.ErrNotSupported},
	} {
		if err := r.port.Configure(tt.conf); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.conf, err, tt.want)
		}
	}
	r.must(r.port.Configure(port.Config{Pool: r.pool, RxQueues: 2, TxQueues: 3, TxOffloads: port.TxTCPTSO | port.TxMultiSegs, WhereAvailable: true}))
	r.must(r.port.Start())
	if info := r.port.Info(); info.RxQueues != 1 || info.TxQueues != 1 || info.TxActive != port.TxMultiSegs {
		t.Errorf("%+v", info)
	}
	if _, err := NewPort(PortConfig{Path: r.path}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second port on the socket: %v", err)
	}
	if _, err := NewPort(PortConfig{}); err == nil {
		t.Error("a port without a socket")
	}
}
