package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// TxBuffer is what the transmit buffer in front of a queue did.
type TxBuffer struct {
	Port, Queue int // numbers
	Stats       driver.TxBufferStats
}

// Collector is a prometheus.Collector over ports, to be registered once. The zero
// value has nothing to show yet. Any goroutine may call its methods.
type Collector struct {
	mu        sync.Mutex
	ports     map[int]port.Port
	pools     []*mbuf.Pool
	txBuffers func() []TxBuffer
}

var _ prometheus.Collector = (*Collector)(nil)

// Add shows a port under the number id, until Remove. A number that is taken, or
// a port that has one already, is an error that wraps port.ErrInvalid. A closed
// port does no harm: its counters stay what they were.
func (c *Collector) Add(id int, p port.Port) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, known := range c.ports {
		switch {
		case other == id:
			return fmt.Errorf("metrics: port %d: %w: %s has that number: remove it first, or give another", id, port.ErrInvalid, known.Name())
		case known == p:
			return fmt.Errorf("metrics: port %d: %w: %s is port %d already: remove that first", id, port.ErrInvalid, p.Name(), other)
		}
	}
	if c.ports == nil {
		c.ports = map[int]port.Port{}
	}
	c.ports[id] = p
	return nil
}

// Remove forgets the port of that number. A scrape that runs may still read it
// once.
func (c *Collector) Remove(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ports, id)
}

// AddPool shows a pool, by its name. One that is shown already, or another of the
// same name, is an error that wraps port.ErrInvalid.
func (c *Collector) AddPool(pool *mbuf.Pool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.pools {
		if known.Name() == pool.Name() {
			return fmt.Errorf("metrics: pool %s: %w: there is one of that name already: name pools apart with mbuf.PoolConfig.Name", pool.Name(), port.ErrInvalid)
		}
	}
	c.pools = append(c.pools, pool)
	return nil
}

// SetTxBuffers says where a scrape finds what transmit buffers did, one for each
// port and queue: f is called from the scrape's goroutine. nil: nowhere.
func (c *Collector) SetTxBuffers(f func() []TxBuffer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.txBuffers = f
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descriptors {
		out <- d
	}
}

// Collect implements prometheus.Collector. It waits for a port that is just being
// started or stopped.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	ports, pools, txBuffers := maps.Clone(c.ports), slices.Clone(c.pools), c.txBuffers
	c.mu.Unlock()
	for id, p := range ports {
		collectPort(out, id, p)
	}
	for _, pool := range pools {
		size := pool.Size()
		gauge(out, poolBuffers, size, pool.Name())
		gauge(out, poolUsed, max(size-pool.Free(), 0), pool.Name()) // both are read one after the other
	}
	if txBuffers != nil {
		for _, b := range txBuffers() {
			collectTxBuffer(out, b)
		}
	}
}

func collectPort(out chan<- prometheus.Metric, id int, p port.Port) {
	info, stats, paths := p.Info(), p.Stats(), p.Paths()
	labels := []string{strconv.Itoa(id), p.Name()}
	gauge(out, portInfo, 1, append(labels, info.Driver, info.MAC.String())...)
	gauge(out, portLink, oneIf(p.Link().Up), labels...)
	counter(out, portMissed, stats.RxMissed, labels...)
	var rxFaults, txFaults []error
	if f, ok := p.(port.Faulter); ok {
		rxFaults, txFaults = f.Faults()
	}
	rx := direction{append(labels, "rx"), paths.Rx.Name, stats.Rx, rxFaults}
	tx := direction{append(labels, "tx"), paths.Tx.Name, stats.Tx, txFaults}
	rx.collect(out)
	tx.collect(out)
	for i, q := range stats.Rx {
		counter(out, queueMissing, q.NoBuf, rx.queue(i)...)
		counter(out, queueDropped, q.Errors, rx.queue(i, "malformed")...)
		counter(out, queueDropped, q.Missed, rx.queue(i, "no_buffer")...)
	}
	for i, q := range stats.Tx {
		counter(out, queueDropped, q.Errors, tx.queue(i, "unsupported")...)
	}
}

// direction is one side of a port.
type direction struct {
	labels []string // port, device, direction
	path   string   // "": not chosen yet
	stats  []port.QueueStats
	faults []error
}

// queue are the labels of a queue, with more behind them.
func (d direction) queue(i int, more ...string) []string {
	return append(append(slices.Clone(d.labels), strconv.Itoa(i)), more...)
}

func (d direction) collect(out chan<- prometheus.Metric) {
	if d.path != "" {
		gauge(out, portPath, 1, append(slices.Clone(d.labels), d.path)...)
	}
	for i, q := range d.stats {
		counter(out, queuePackets, q.Packets, d.queue(i)...)
		counter(out, queueBytes, q.Bytes, d.queue(i)...)
	}
	for i, err := range d.faults {
		gauge(out, queueBroken, oneIf(err != nil), d.queue(i)...)
	}
}

func collectTxBuffer(out chan<- prometheus.Metric, b TxBuffer) {
	labels := []string{strconv.Itoa(b.Port), strconv.Itoa(b.Queue)}
	counter(out, txBufferFlushes, b.Stats.Full, append(labels, "full")...)
	counter(out, txBufferFlushes, b.Stats.Late, append(labels, "late")...)
	counter(out, txBufferFlushes, b.Stats.Asked, append(labels, "asked")...)
	counter(out, txBufferPackets, b.Stats.Packets, labels...)
	counter(out, txBufferDropped, b.Stats.Dropped, labels...)
	counter(out, txBufferRetries, b.Stats.Retries, labels...)
}

func counter(out chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	send(out, d, prometheus.CounterValue, float64(n), labels)
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, n int, labels ...string) {
	send(out, d, prometheus.GaugeValue, float64(n), labels)
}

// send passes a value on. Names of devices and pools come from people, and need not
// be the UTF-8 that labels are.
func send(out chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	for i, text := range labels {
		labels[i] = strings.ToValidUTF8(text, "?")
	}
	out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
