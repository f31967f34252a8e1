// Package tapport has ports that are network interfaces of the kernel: what
// the kernel sends out of the interface, the port receives, and what the port
// sends, the kernel receives there. They are the like of DPDK's net_tap.
//
// The interface is there from New to Close, and up from Start to Stop. It is in
// the network namespace of the thread that calls New; Start has to be called in
// the same one. It takes root or CAP_NET_ADMIN.
package tapport

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"vionet/port"
)

// Config says what the kernel's interface looks like.
type Config struct {
	Name      string           // of the port; "net_tap0" if empty
	Devargs   string           // the arguments as they were written, for people
	Interface string           // "dtap%d" if empty, see ParseDevargs
	MAC       net.HardwareAddr // nil: the kernel makes one up
}

// Bounds of a port.
const (
	maxQueues  = 16
	maxDesc    = 65535
	minMTU     = 68
	maxMTU     = 65521
	defaultMTU = 1500
	maxFrame   = maxMTU + 14 + 2*4 // bytes, with two VLAN tags
	speed      = 10_000            // Mb/s
	maxBacklog = 1 << 16           // frames that the kernel keeps for a queue, and more
)

// tapPort is a port on a kernel interface.
type tapPort struct {
	name, devargs, iface string

	mu       sync.Mutex
	link     *link
	taps     []*tap // one for each receive queue, and at least one
	mac      net.HardwareAddr
	conf     port.Config
	started  bool
	closed   bool
	promisc  bool
	allMulti bool
	listener func(port.Event)
	told     bool // that the interface is gone
	rx       []*rxQueue
	tx       []*txQueue
}

// New makes the interface, which must not exist, and leaves it down.
func New(cfg Config) (port.Port, error) {
	if cfg.Name == "" {
		cfg.Name = "net_tap0"
	}
	if cfg.Interface == "" {
		cfg.Interface = "dtap%d"
	}
	p := &tapPort{name: cfg.Name, devargs: cfg.Devargs, conf: port.Config{RxQueues: 1, TxQueues: 1}}
	if err := p.open(cfg); err != nil {
		return nil, p.failed(err)
	}
	return p, nil
}

// open makes the interface and finds out its address.
func (p *tapPort) open(cfg Config) (err error) {
	if err := checkName(cfg.Interface); err != nil {
		return err
	}
	if cfg.MAC != nil {
		if err := checkMAC(cfg.MAC); err != nil {
			return err
		}
	}
	t, name, err := openTap(cfg.Interface, true)
	if err != nil {
		return err
	}
	p.iface, p.taps = name, []*tap{t}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.release())
		}
	}()
	if p.link, err = findLink(name); err != nil {
		return err
	}
	if cfg.MAC != nil {
		if err := p.link.setMAC(cfg.MAC); err != nil {
			return err
		}
	}
	state, err := p.link.state()
	p.mac = state.mac
	return err
}

// release gives the interface back: it goes with its last queue.
func (p *tapPort) release() error {
	var errs []error
	for _, t := range p.taps {
		errs = append(errs, t.close())
	}
	if p.link != nil {
		p.link.close()
	}
	p.taps, p.link = nil, nil
	return errors.Join(errs...)
}

func (p *tapPort) failed(err error) error { return fmt.Errorf("port: %s: %w", p.name, err) }

func (p *tapPort) Name() string { return p.name }

func (p *tapPort) Info() port.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := port.Info{
		Name: p.name, Driver: "net_tap", Devargs: p.devargs,
		MAC: slices.Clone(p.mac), MTU: p.conf.MTU, MinMTU: minMTU, MaxMTU: maxMTU,
		RxQueues: p.conf.RxQueues, TxQueues: p.conf.TxQueues,
		MaxRxQueues: maxQueues, MaxTxQueues: maxQueues,
		RxDesc: p.conf.RxDesc, TxDesc: p.conf.TxDesc, MaxDesc: maxDesc,
		MaxRxPktLen: maxFrame, MaxMACs: 1, Promiscuous: p.promisc, Paths: p.Paths(),
		RxCapa: port.RxScatter, TxCapa: port.TxMultiSegs,
		RxActive: p.conf.RxOffloads, TxActive: p.conf.TxOffloads,
	}
	if info.MTU == 0 {
		info.MTU = defaultMTU
	}
	return info
}

var limits = port.Limits{
	RxQueues: maxQueues, TxQueues: maxQueues,
	RxOffloads: port.RxScatter, TxOffloads: port.TxMultiSegs, OffloadHint: "the kernel does its own work",
	MinMTU: minMTU, MaxMTU: maxMTU,
}

// Configure takes any number of descriptors: the kernel's queues have the
// length that it gives them.
func (p *tapPort) Configure(c port.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return port.ErrClosed
	case p.started:
		return p.failed(fmt.Errorf("%w: stop the port before configuring it", port.ErrState))
	}
	c, err := limits.Fit(c)
	if err != nil {
		return p.failed(err)
	}
	p.conf = c
	return nil
}

func (p *tapPort) Start() error {
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
	// Attaching queues to an interface that is gone would make another one.
	if _, err := p.link.state(); err != nil {
		return p.failed(err)
	}
	if err := p.attach(p.conf.RxQueues); err != nil {
		return p.failed(err)
	}
	mtu := p.conf.MTU
	if mtu == 0 {
		mtu = defaultMTU
	}
	if err := p.link.setMTU(mtu); err != nil {
		return p.failed(err)
	}
	if err := p.link.setUp(true); err != nil {
		return p.failed(err)
	}
	p.makeQueues()
	p.started = true
	return nil
}

// attach brings the queues of the interface to n, over which the kernel spreads
// what it sends.
func (p *tapPort) attach(n int) error {
	for len(p.taps) > n {
		last := len(p.taps) - 1
		t := p.taps[last]
		p.taps = p.taps[:last]
		if err := t.close(); err != nil {
			return err
		}
	}
	for len(p.taps) < n {
		t, _, err := openTap(p.iface, false)
		if err != nil {
			return err
		}
		p.taps = append(p.taps, t)
	}
	return nil
}

// makeQueues starts the queues. Those that are there keep their counters, which
// live as long as the port does. A transmit queue beyond the interface's shares
// one of them.
func (p *tapPort) makeQueues() {
	for len(p.rx) < p.conf.RxQueues {
		p.rx = append(p.rx, &rxQueue{queue: queue{gone: p.gone}})
	}
	for len(p.tx) < p.conf.TxQueues {
		p.tx = append(p.tx, &txQueue{queue: queue{gone: p.gone}})
	}
	p.rx, p.tx = p.rx[:p.conf.RxQueues], p.tx[:p.conf.TxQueues]
	for i, q := range p.rx {
		q.start(p.taps[i], p.conf)
	}
	for i, q := range p.tx {
		q.start(p.taps[i%len(p.taps)], p.conf.Pool)
	}
}

// Stop brings the interface down.
func (p *tapPort) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stop()
}

func (p *tapPort) stop() error {
	if !p.started {
		return nil
	}
	p.started = false
	err := p.link.setUp(false)
	for _, q := range p.rx {
		q.stop()
	}
	for _, q := range p.tx {
		q.stop()
	}
	if err == nil || errors.Is(err, port.ErrGone) { // as down as can be
		return nil
	}
	return p.failed(err)
}

// Close removes the interface.
func (p *tapPort) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	err := p.stop()
	p.closed = true
	return errors.Join(err, p.release())
}

func (p *tapPort) RxQueue(i int) port.RxQueue { return p.rx[i] }
func (p *tapPort) TxQueue(i int) port.TxQueue { return p.tx[i] }

func (p *tapPort) Stats() port.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := port.Stats{Rx: make([]port.QueueStats, len(p.rx)), Tx: make([]port.QueueStats, len(p.tx))}
	for i, q := range p.rx {
		s.Rx[i] = q.stats()
	}
	for i, q := range p.tx {
		s.Tx[i] = q.stats()
	}
	return s.Totals()
}

// Faults says which queues have stopped for good.
func (p *tapPort) Faults() (rx, tx []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return nil, nil
	}
	return port.FaultsOf(p.rx), port.FaultsOf(p.tx)
}

func (p *tapPort) ResetStats() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.rx {
		q.reset()
	}
	for _, q := range p.tx {
		q.reset()
	}
}

// Link asks the kernel about the interface.
func (p *tapPort) Link() port.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	down := port.Link{FullDuplex: true}
	if !p.started {
		return down
	}
	const up = unix.IFF_UP | unix.IFF_RUNNING
	if state, err := p.link.state(); err != nil || state.flags&up != up {
		return down
	}
	return port.Link{Up: true, Speed: speed, FullDuplex: true}
}

func (p *tapPort) Paths() port.Paths {
	path := port.Path{Name: "tap", Reason: "the interface " + p.iface + " is the kernel's: a system call a frame"}
	return port.Paths{Rx: path, Tx: path}
}

// Notify tells of port.Removed. Who wants to know about the link asks Link.
func (p *tapPort) Notify(f func(port.Event)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = f
}

// gone tells, once, that somebody removed the interface.
func (p *tapPort) gone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.told && p.listener != nil {
		p.told = true
		go p.listener(port.Removed)
	}
}
