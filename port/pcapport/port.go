// Package pcapport has ports that are capture files: what such a port receives
// it reads from files, and what it sends it writes to files. It has the
// arguments of DPDK's net_pcap.
//
// Files to read are pcap, with microseconds or nanoseconds and also compressed
// with gzip, or pcapng, of Ethernet frames; files to write are pcap with
// nanoseconds.
package pcapport

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"vionet/mbuf"
	"vionet/port"
)

// Config says what a port reads and writes.
type Config struct {
	Name    string // "net_pcap0" if empty
	Devargs string // the arguments as they were written, for people
	// RxFiles are the files that the port reads, one for each receive queue
	// (rx_pcap=). Each is played once from every Start on. Without any the port
	// receives nothing.
	RxFiles []string
	// Loop plays the files again and again (infinite_rx=1). They are kept in
	// memory then.
	Loop bool
	// TxFiles are the files that the port writes, one for each transmit queue
	// (tx_pcap=). The first Start makes them anew. Without any the port frees
	// what it sends.
	TxFiles []string
}

// Bounds of a port.
const (
	maxFrame = 65535 // bytes of one frame
	maxDesc  = 65535
	minMTU   = 68
	maxMTU   = maxFrame - 18
	speed    = 10_000
)

// pcap is a port on files.
type pcap struct {
	cfg Config
	mac net.HardwareAddr

	mu      sync.Mutex
	conf    port.Config
	started bool
	closed  bool
	promisc bool
	rx      []*rxQueue
	tx      []*txQueue
}

// New makes a port. It fails when a file to read is not there or is none that
// the port can read.
func New(cfg Config) (port.Port, error) {
	if cfg.Name == "" {
		cfg.Name = "net_pcap0"
	}
	p := &pcap{cfg: cfg, mac: stationOf(cfg.Name), conf: port.Config{RxQueues: 1, TxQueues: 1}}
	for _, name := range cfg.RxFiles {
		f, err := openCapture(name)
		if err != nil {
			return nil, p.failed(err)
		}
		f.close()
	}
	for range max(len(cfg.RxFiles), 1) {
		p.rx = append(p.rx, new(rxQueue))
	}
	for range max(len(cfg.TxFiles), 1) {
		p.tx = append(p.tx, new(txQueue))
	}
	for i, name := range cfg.RxFiles {
		p.rx[i].name = name
	}
	for i, name := range cfg.TxFiles {
		p.tx[i].name = name
	}
	return p, nil
}

// stationOf is the MAC address of the port of that name: the letters of pcap and
// the number in the name.
func stationOf(name string) net.HardwareAddr {
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	n, _ := strconv.ParseUint(digits, 10, 8)
	return net.HardwareAddr{2, 'p', 'c', 'a', 'p', byte(n)}
}

func (p *pcap) failed(err error) error { return fmt.Errorf("port: %s: %w", p.cfg.Name, err) }

func (p *pcap) Name() string { return p.cfg.Name }

func (p *pcap) Info() port.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := port.Info{
		Name: p.cfg.Name, Driver: "net_pcap", Devargs: p.cfg.Devargs,
		MAC: p.mac, MTU: p.conf.MTU, MinMTU: minMTU, MaxMTU: maxMTU,
		RxQueues: p.conf.RxQueues, TxQueues: p.conf.TxQueues,
		MaxRxQueues: len(p.rx), MaxTxQueues: len(p.tx),
		RxDesc: p.conf.RxDesc, TxDesc: p.conf.TxDesc, MaxDesc: maxDesc,
		MaxRxPktLen: maxFrame, MaxMACs: 1, Promiscuous: p.promisc, Paths: p.Paths(),
		RxCapa: port.RxScatter, TxCapa: port.TxMultiSegs,
		RxActive: p.conf.RxOffloads, TxActive: p.conf.TxOffloads,
	}
	if info.MTU == 0 {
		info.MTU = 1500
	}
	return info
}

func (p *pcap) limits() port.Limits {
	return port.Limits{
		RxQueues: len(p.rx), TxQueues: len(p.tx), QueueHint: ", one for each rx_pcap= and tx_pcap=",
		RxOffloads: port.RxScatter, TxOffloads: port.TxMultiSegs, OffloadHint: "a file has none",
		MinMTU: minMTU, MaxMTU: maxMTU,
	}
}

func (p *pcap) Configure(c port.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return port.ErrClosed
	case p.started:
		return p.failed(fmt.Errorf("%w: stop the port before configuring it", port.ErrState))
	}
	c, err := p.limits().Fit(c)
	if err != nil {
		return p.failed(err)
	}
	p.conf = c
	return nil
}

func (p *pcap) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return port.ErrClosed
	case p.conf.Pool == nil:
		return p.failed(fmt.Errorf("%w: configure the port before starting it", port.ErrState))
	case p.started:
		return p.failed(fmt.Errorf("%w: it is started already", port.ErrState))
	}
	for _, q := range p.rx {
		if err := q.start(p.conf.Pool, p.cfg.Loop); err != nil {
			p.stopRx()
			return p.failed(err)
		}
	}
	for _, q := range p.tx {
		if err := q.start(p.conf.Pool); err != nil {
			p.stopRx()
			return p.failed(err)
		}
	}
	p.started = true
	return nil
}

// Stop brings everything that was sent into the files.
func (p *pcap) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stop()
}

func (p *pcap) stop() error {
	if !p.started {
		return nil
	}
	p.started = false
	p.stopRx()
	var errs []error
	for _, q := range p.tx {
		errs = append(errs, q.stop())
	}
	if err := errors.Join(errs...); err != nil {
		return p.failed(err)
	}
	return nil
}

func (p *pcap) stopRx() {
	for _, q := range p.rx {
		q.stop()
	}
}

func (p *pcap) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	errs := []error{p.stop()}
	p.closed = true
	for _, q := range p.tx {
		errs = append(errs, q.close())
	}
	return errors.Join(errs...)
}

func (p *pcap) RxQueue(i int) port.RxQueue { return p.rx[i] }
func (p *pcap) TxQueue(i int) port.TxQueue { return p.tx[i] }

func (p *pcap) Stats() port.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := port.Stats{Rx: make([]port.QueueStats, p.conf.RxQueues), Tx: make([]port.QueueStats, p.conf.TxQueues)}
	for i := range s.Rx {
		s.Rx[i] = p.rx[i].stats()
	}
	for i := range s.Tx {
		s.Tx[i] = p.tx[i].stats()
	}
	return s.Totals()
}

// Faults says which queues have stopped for good.
func (p *pcap) Faults() (rx, tx []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return nil, nil
	}
	return port.FaultsOf(p.rx[:p.conf.RxQueues]), port.FaultsOf(p.tx[:p.conf.TxQueues])
}

func (p *pcap) ResetStats() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.rx {
		q.reset()
	}
	for _, q := range p.tx {
		q.reset()
	}
}

func (p *pcap) Link() port.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return port.Link{Up: p.started, Speed: speed, FullDuplex: true}
}

func (p *pcap) Paths() port.Paths {
	path := port.Path{Name: "file", Reason: "there is no device"}
	return port.Paths{Rx: path, Tx: path}
}

func (p *pcap) SetPromiscuous(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promisc = on
	return nil
}

// Notify does nothing: nothing ever happens to a file.
func (p *pcap) Notify(func(port.Event)) {}

// roomOf is the number of bytes of a frame that a buffer of the pool holds.
func roomOf(pool *mbuf.Pool) int { return pool.BufSize() - mbuf.Headroom }
