package metrics

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPool(t *testing.T, name string) *mbuf.Pool {
	t.Helper()
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 8 << 20, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Name: name, Count: 1024})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// fake is a port on a fake device with an address of its own.
func fake(t *testing.T, name string) (*driver.Device, *fakedev.Device) {
	t.Helper()
	dev := fakedev.New(fakedev.Config{Name: name})
	p, err := driver.Open(dev, driver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, dev
}

func start(t *testing.T, p port.Port, pool *mbuf.Pool) {
	t.Helper()
	if err := errors.Join(p.Configure(port.Config{Pool: pool}), p.Start()); err != nil {
		t.Fatal(err)
	}
}

// registered gives a registry with the collector alone.
func registered(c *Collector) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	return r
}

// expect compares the metrics of some names with a text of Prometheus's.
func expect(t *testing.T, r prometheus.Gatherer, text string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(r, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func TestWhatAPortDid(t *testing.T) {
	pool := newPool(t, "mb_pool_0")
	p, dev := fake(t, "0000:00:04.0")
	var c Collector
	if err := errors.Join(c.Add(0, p), c.AddPool(pool)); err != nil {
		t.Fatal(err)
	}
	r := registered(&c)
	expect(t, r, `
# HELP vionet_port_link_up Whether the port's link is up.
# TYPE vionet_port_link_up gauge
vionet_port_link_up{device="0000:00:04.0",port="0"} 0
`, "vionet_port_link_up", "vionet_queue_packets_total", "vionet_queue_broken", "vionet_port_path_info")

	start(t, p, pool)
	var pkts [8]*mbuf.Buf
	for _, size := range []int{60, 100} {
		if err := dev.Deliver(0, virtio.NetHeader{}, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	n := p.RxQueue(0).Burst(pkts[:])
	sent := p.TxQueue(0).Burst(pkts[:1])
	if n != 2 || sent != 1 {
		t.Fatalf("%d received, %d sent", n, sent)
	}
	pkts[1].Free()
	if err := dev.Deliver(0, virtio.NetHeader{}, make([]byte, 5)); err != nil { // less than a header
		t.Fatal(err)
	}
	p.RxQueue(0).Burst(pkts[:])
	if _, err := dev.Sent(0); err != nil {
		t.Fatal(err)
	}
	mac := p.Info().MAC.String()
	expect(t, r, `
# HELP vionet_port_info What the port is; always 1.
# TYPE vionet_port_info gauge
vionet_port_info{device="0000:00:04.0",driver="net_virtio",mac="`+mac+`",port="0"} 1
# HELP vionet_port_link_up Whether the port's link is up.
# TYPE vionet_port_link_up gauge
vionet_port_link_up{device="0000:00:04.0",port="0"} 1
# HELP vionet_port_missed_packets_total Frames that the device had no buffer for, where it tells.
# TYPE vionet_port_missed_packets_total counter
vionet_port_missed_packets_total{device="0000:00:04.0",port="0"} 0
# HELP vionet_port_path_info Burst functions that the last start of the port chose; always 1.
# TYPE vionet_port_path_info gauge
vionet_port_path_info{device="0000:00:04.0",direction="rx",path="`+p.Paths().Rx.Name+`",port="0"} 1
vionet_port_path_info{device="0000:00:04.0",direction="tx",path="simple",port="0"} 1
# HELP vionet_queue_broken Whether the queue has stopped because the device broke a rule.
# TYPE vionet_queue_broken gauge
vionet_queue_broken{device="0000:00:04.0",direction="rx",port="0",queue="0"} 0
vionet_queue_broken{device="0000:00:04.0",direction="tx",port="0",queue="0"} 0
# HELP vionet_queue_bytes_total Bytes of the Ethernet frames received or sent, without the frame check sequence.
# TYPE vionet_queue_bytes_total counter
vionet_queue_bytes_total{device="0000:00:04.0",direction="rx",port="0",queue="0"} 160
vionet_queue_bytes_total{device="0000:00:04.0",direction="tx",port="0",queue="0"} 60
# HELP vionet_queue_missing_buffers_total Buffers for reception that the pool could not give.
# TYPE vionet_queue_missing_buffers_total counter
vionet_queue_missing_buffers_total{device="0000:00:04.0",direction="rx",port="0",queue="0"} 0
# HELP vionet_queue_packets_total Packets received or sent.
# TYPE vionet_queue_packets_total counter
vionet_queue_packets_total{device="0000:00:04.0",direction="rx",port="0",queue="0"} 2
vionet_queue_packets_total{device="0000:00:04.0",direction="tx",port="0",queue="0"} 1
# HELP vionet_pool_buffers Buffers that belong to the pool.
# TYPE vionet_pool_buffers gauge
vionet_pool_buffers{pool="mb_pool_0"} 1024
`, "vionet_port_info", "vionet_port_link_up", "vionet_port_missed_packets_total", "vionet_port_path_info",
		"vionet_queue_broken", "vionet_queue_bytes_total", "vionet_queue_missing_buffers_total", "vionet_queue_packets_total", "vionet_pool_buffers")
	const dropped = `
# HELP vionet_queue_dropped_packets_total Packets dropped because their header was broken (malformed), because there was no buffer (no_buffer), or because they asked for what the port has not (unsupported).
# TYPE vionet_queue_dropped_packets_total counter
vionet_queue_dropped_packets_total{device="0000:00:04.0",direction="rx",port="0",queue="0",reason="malformed"} 1
vionet_queue_dropped_packets_total{device="0000:00:04.0",direction="rx",port="0",queue="0",reason="no_buffer"} 0
vionet_queue_dropped_packets_total{device="0000:00:04.0",direction="tx",port="0",queue="0",reason="unsupported"} 0
`
	expect(t, r, dropped, "vionet_queue_dropped_packets_total")

	// A device that breaks a rule stops the queue.
	dev.Queue(virtio.RxQueue(0)).SkipUsed(257)
	p.RxQueue(0).Burst(pkts[:])
	const broken = `
# HELP vionet_queue_broken Whether the queue has stopped because the device broke a rule.
# TYPE vionet_queue_broken gauge
vionet_queue_broken{device="0000:00:04.0",direction="rx",port="0",queue="0"} 1
vionet_queue_broken{device="0000:00:04.0",direction="tx",port="0",queue="0"} 0
`
	expect(t, r, broken, "vionet_queue_broken")

	// Counters of a closed port stay, and its queues are gone.
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, r, dropped, "vionet_queue_dropped_packets_total", "vionet_queue_broken")
	expect(t, r, `
# HELP vionet_pool_used_buffers Buffers that are not in the pool: with devices and workers, and in their caches.
# TYPE vionet_pool_used_buffers gauge
vionet_pool_used_buffers{pool="mb_pool_0"} 0
`, "vionet_pool_used_buffers")
	c.Remove(0)
	expect(t, r, "", "vionet_queue_dropped_packets_total")
}

// missing is a port whose queue has dropped frames for two reasons.
type missing struct{ port.Port }

func (missing) Stats() port.Stats {
	return port.Stats{Rx: []port.QueueStats{{Errors: 2, Missed: 3}}}.Totals()
}

func TestWhyFramesAreDropped(t *testing.T) {
	p, _ := fake(t, "a")
	var c Collector
	if err := c.Add(0, missing{p}); err != nil {
		t.Fatal(err)
	}
	expect(t, registered(&c), `
# HELP vionet_port_missed_packets_total Frames that the device had no buffer for, where it tells.
# TYPE vionet_port_missed_packets_total counter
vionet_port_missed_packets_total{device="a",port="0"} 3
# HELP vionet_queue_dropped_packets_total Packets dropped because their header was broken (malformed), because there was no buffer (no_buffer), or because they asked for what the port has not (unsupported).
# TYPE vionet_queue_dropped_packets_total counter
vionet_queue_dropped_packets_total{device="a",direction="rx",port="0",queue="0",reason="malformed"} 2
vionet_queue_dropped_packets_total{device="a",direction="rx",port="0",queue="0",reason="no_buffer"} 3
`, "vionet_port_missed_packets_total", "vionet_queue_dropped_packets_total")
}

func TestTxBuffers(t *testing.T) {
	var c Collector
	c.SetTxBuffers(func() []TxBuffer {
		return []TxBuffer{{Port: 1, Queue: 2, Stats: driver.TxBufferStats{Full: 3, Late: 4, Asked: 5, Packets: 6, Dropped: 7, Retries: 8}}}
	})
	expect(t, registered(&c), `
# HELP vionet_tx_buffer_dropped_packets_total Packets of the transmit buffer that the queue did not take.
# TYPE vionet_tx_buffer_dropped_packets_total counter
vionet_tx_buffer_dropped_packets_total{port="1",queue="2"} 7
# HELP vionet_tx_buffer_flushes_total Bursts that the transmit buffer sent, because it was full, because packets had waited long enough (late), or by wish (asked).
# TYPE vionet_tx_buffer_flushes_total counter
vionet_tx_buffer_flushes_total{port="1",queue="2",reason="asked"} 5
vionet_tx_buffer_flushes_total{port="1",queue="2",reason="full"} 3
vionet_tx_buffer_flushes_total{port="1",queue="2",reason="late"} 4
# HELP vionet_tx_buffer_packets_total Packets of the transmit buffer that the queue took.
# TYPE vionet_tx_buffer_packets_total counter
vionet_tx_buffer_packets_total{port="1",queue="2"} 6
# HELP vionet_tx_buffer_retries_total How often the transmit buffer offered packets again.
# TYPE vionet_tx_buffer_retries_total counter
vionet_tx_buffer_retries_total{port="1",queue="2"} 8
`)
}

// all is a collector that has something to show of every kind.
func all(t *testing.T) *Collector {
	t.Helper()
	pool := newPool(t, "mb_pool_0")
	p, _ := fake(t, "0000:00:04.0")
	start(t, p, pool)
	null, err := port.NewNull(port.NullConfig{Name: "null \xff"}) // not UTF-8
	if err != nil {
		t.Fatal(err)
	}
	start(t, null, pool)
	t.Cleanup(func() { null.Close() })
	c := new(Collector)
	if err := errors.Join(c.Add(0, p), c.Add(1, null), c.AddPool(pool)); err != nil {
		t.Fatal(err)
	}
	c.SetTxBuffers(func() []TxBuffer { return []TxBuffer{{}} })
	return c
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(registered(all(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestRefusals(t *testing.T) {
	var c Collector
	a, _ := fake(t, "a")
	b, _ := fake(t, "b")
	if err := c.Add(0, a); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(0, b); !errors.Is(err, port.ErrInvalid) || !strings.Contains(err.Error(), "a has that number") {
		t.Errorf("a number twice: %v", err)
	}
	if err := c.Add(1, a); !errors.Is(err, port.ErrInvalid) || !strings.Contains(err.Error(), "port 0 already") {
		t.Errorf("a port twice: %v", err)
	}
	c.Remove(0)
	c.Remove(7) // is not there
	if err := errors.Join(c.Add(0, b), c.Add(1, a)); err != nil {
		t.Error(err)
	}
	if err := c.AddPool(newPool(t, "x")); err != nil {
		t.Error(err)
	}
	if err := c.AddPool(newPool(t, "x")); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("two pools of one name: %v", err)
	}
	r := registered(&c)
	var again prometheus.AlreadyRegisteredError
	if err := r.Register(&c); !errors.As(err, &again) {
		t.Errorf("registered twice: %v", err)
	}
}

// Scrapes come while a worker forwards, and while ports start, stop, break and come
// and go.
func TestScrapesDuringTraffic(t *testing.T) {
	pool := newPool(t, "mb_pool_0")
	p, dev := fake(t, "fake")
	null, err := port.NewNull(port.NullConfig{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, null, pool)
	defer null.Close()
	var c Collector
	if err := errors.Join(c.Add(0, p), c.Add(1, null), c.AddPool(pool)); err != nil {
		t.Fatal(err)
	}
	r := registered(&c)
	stop := make(chan struct{})
	var workers sync.WaitGroup
	until := func(step func()) {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					step()
				}
			}
		})
	}
	until(func() {
		var pkts [32]*mbuf.Buf
		n := null.RxQueue(0).Burst(pkts[:])
		null.TxQueue(0).Burst(pkts[:n])
	})
	until(func() {
		start(t, p, pool)
		var pkts [32]*mbuf.Buf
		for range 100 {
			dev.Deliver(0, virtio.NetHeader{}, make([]byte, 60))
			n := p.RxQueue(0).Burst(pkts[:])
			for _, b := range pkts[p.TxQueue(0).Burst(pkts[:n]):n] {
				b.Free()
			}
			dev.Sent(0)
		}
		dev.Queue(virtio.RxQueue(0)).SkipUsed(257)
		p.RxQueue(0).Burst(pkts[:])
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	until(func() {
		c.Remove(1)
		if err := c.Add(1, null); err != nil {
			t.Error(err)
		}
		null.ResetStats()
		time.Sleep(time.Millisecond)
	})
	for range 100 {
		if _, err := r.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	workers.Wait()
}
