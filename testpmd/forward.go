package testpmd

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"vionet/capture"
	"vionet/mbuf"
	"vionet/port"
	"vionet/testpmd/engine"
)

// forwarding is packet forwarding that runs.
type forwarding struct {
	engine  *engine.Engine
	streams []*engine.Stream
	active  []bool // which of them have both queues
	records *records
	workers []*worker
	ports   []int              // that take part, in order of use
	base    map[int]port.Stats // their counters when forwarding started
	stop    atomic.Bool
	done    chan struct{} // closed by the last worker that ends
}

// uses reports whether the port takes part.
func (f *forwarding) uses(id int) bool { return slices.Contains(f.ports, id) }

// rebase makes the counters of a port count from s.
func (f *forwarding) rebase(id int, s port.Stats) { f.base[id] = s }

// link is the way from a receive to a transmit queue, by number.
type link struct{ rxPort, rxQueue, txPort, txQueue int }

// links gives the ways that the current settings make, queue by queue.
func (c *Console) links() []link {
	active := c.fwdPorts[:c.nbPorts]
	queues := min(c.Options.RxQueues, c.Options.TxQueues)
	var links []link
	for q := range queues {
		for i, rx := range active {
			links = append(links, link{rx, q, active[c.Options.Topology.next(i, len(active))], q})
		}
	}
	return links
}

// next is where what the i-th of n ports receives leaves.
func (t Topology) next(i, n int) int {
	switch t {
	case Chained:
		return (i + 1) % n
	case Loop:
		return i
	}
	if i%2 == 1 {
		return i - 1
	}
	if i+1 < n {
		return i + 1
	}
	return i
}

// share gives the links of the k-th of n cores; the last cores have one more
// when they do not divide evenly.
func share[T any](links []T, k, n int) []T {
	each, extra := len(links)/n, len(links)%n
	plain := n - extra // cores with no more than each
	first := k*each + max(k-plain, 0)
	last := first + each
	if k >= plain {
		last++
	}
	return links[first:last]
}

// only gives the items of list that are marked in keep.
func only[T any](list []T, keep []bool) []T {
	var kept []T
	for i, item := range list {
		if keep[i] {
			kept = append(kept, item)
		}
	}
	return kept
}

// nbWorkers is the number of cores that have something to do.
func (c *Console) nbWorkers(links int) int { return min(c.Options.NbCores, links) }

// startForwarding starts packet forwarding after sending txFirst bursts on
// each stream.
func (c *Console) startForwarding(txFirst int) {
	if c.fwd != nil {
		c.errorf("Packet forwarding already started\n")
		return
	}
	for _, p := range c.openPorts() {
		if !p.started {
			c.errorf("Not all ports were started\n")
			return
		}
	}
	links := c.links()
	f := &forwarding{
		engine: c.mode, ports: slices.Clone(c.fwdPorts[:c.nbPorts]), records: newRecords(c.Options),
		base: map[int]port.Stats{}, done: make(chan struct{}),
	}
	for _, l := range links {
		s := c.newStream(l)
		f.records.watch(s)
		if err := c.buffer(s); err != nil {
			c.errorf("Port %d: %v: see set txbuffer\n", l.txPort, err)
			return
		}
		f.streams = append(f.streams, s)
		f.active = append(f.active, !c.idle(l))
	}
	c.printForwarding()
	c.printQueues()
	n := c.nbWorkers(len(links))
	for k := range n {
		active := share(f.active, k, n)
		f.workers = append(f.workers, &worker{
			core: c.fwdCores[k], forward: f.records.timed(c.mode.Forward), streams: only(share(f.streams, k, n), active),
			poller: c.newPoller(c.fwdCores[k], only(share(links, k, n), active)), generates: c.mode.Generates,
			cache: c.Pool.NewCache(max(mbuf.DefaultCacheSize, 2*c.Options.Burst)), drain: c.Options.FlushRx, txFirst: txFirst,
			stop: &f.stop, ready: make(chan struct{}), faults: c.faults,
		})
	}
	f.launch()
	for _, id := range f.ports {
		f.rebase(id, c.ports[id].Stats())
	}
	c.fwd = f
	c.lastStreams.Store(&f.streams)
}

// newStream prepares the stream of a link.
func (c *Console) newStream(l link) *engine.Stream {
	rx, tx := c.ports[l.rxPort], c.ports[l.txPort]
	cfg := engine.StreamConfig{
		RxPort: l.rxPort, RxQueue: l.rxQueue, TxPort: l.txPort, TxQueue: l.txQueue,
		Rx:    c.tap.RxQueue(rx.RxQueue(l.rxQueue), capture.Source{Port: l.rxPort, Queue: l.rxQueue}),
		Tx:    c.tap.TxQueue(tx.TxQueue(l.txQueue), capture.Source{Port: l.txPort, Queue: l.txQueue}),
		Burst: c.Options.Burst, Peer: tx.peer, TxSegs: c.Options.TxSegs,
		TxSplit: engine.SplitMode(slices.Index(txSplits, c.txSplit)), TxOffloads: tx.applied.TxOffloads, VLAN: tx.txVLAN,
		KeepMACs: tx.keepMACs, ParseTunnel: tx.tunnels,
		MultiFlow: c.Options.MultiFlow, TxAddrs: c.Options.TxAddrs, TxPorts: c.Options.TxPorts,
		Flows: c.Options.Flows, Clones: c.Options.Clones,
		Watch: c.watch,
	}
	txInfo := tx.Info()
	copy(cfg.Source[:], txInfo.MAC)
	cfg.RxLends, cfg.TxDMA = rx.Info().RxLends, txInfo.TxDMA
	if c.mode == engine.Noisy {
		cfg.Noise = c.Options.Noise
	}
	if c.retry {
		cfg.Retries, cfg.Delay = c.retries, c.delay
	}
	if tx.applied.TxOffloads&port.TxTCPTSO != 0 {
		cfg.TSOSize = tx.tsoSize
	}
	return engine.NewStream(cfg)
}

// launch starts the workers and returns when their receive queues are empty,
// so that nothing that arrives from now on is thrown away.
func (f *forwarding) launch() {
	var running atomic.Int32
	running.Store(int32(len(f.workers)))
	if len(f.workers) == 0 {
		close(f.done)
		return
	}
	release := holdCollector()
	for _, w := range f.workers {
		w.yields = runtime.GOMAXPROCS(0) <= len(f.workers)
	}
	for _, w := range f.workers {
		go func() {
			w.run()
			if running.Add(-1) == 0 {
				release()
				close(f.done)
			}
		}()
	}
	for _, w := range f.workers {
		<-w.ready
	}
}

// stopLimit is how long stop waits: a burst takes microseconds.
const stopLimit = 5 * time.Second

var errNotFinished = errors.New("a forwarding core does not finish its burst")

// halt makes the workers end within limit.
func (f *forwarding) halt(limit time.Duration) error {
	f.stop.Store(true)
	for _, w := range f.workers {
		w.wake()
	}
	select {
	case <-f.done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%w within %v", errNotFinished, limit)
	}
}

// stopForwarding stops packet forwarding and prints what it did.
func (c *Console) stopForwarding() {
	if c.fwd == nil {
		c.errorf("Packet forwarding not started\n")
		return
	}
	c.printf("Telling cores to stop...\nWaiting for lcores to finish...\n")
	if err := c.fwd.halt(stopLimit); err != nil {
		c.errorf("%v\n", err)
		return
	}
	c.printFwdStats()
	c.fwd = nil
	c.printf("\nDone.\n")
}
