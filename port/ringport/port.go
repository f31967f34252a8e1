// Package ringport has ports without a device that are tied together: what one
// sends, the other receives. A single one receives what it sends. They are the
// like of DPDK's net_ring.
//
// Packets are not copied: the buffers themselves change hands, with everything
// in them but the flags, and go back to their own pool in the end, which may
// be another than the receiving port's.
package ringport

import (
	"fmt"
	"hash/fnv"
	"math"
	"net"

	"vionet/port"
)

// Bounds of a port.
const (
	defaultSize = 1024
	maxSize     = 1 << 20
	maxDesc     = math.MaxUint16
	maxFrame    = math.MaxUint16 // bytes
	minMTU      = 68
	maxMTU      = maxFrame - 18
	speed       = 10_000 // Mb/s
)

// Config says what a port looks like.
type Config struct {
	Name    string // "net_ring0" if empty
	Devargs string // the arguments as they were written, for people
	// Size is the number of packets that each of the port's rings holds,
	// rounded up to a power of two; 1024 if 0.
	Size int
}

// New makes a port that receives what it sends. Transmit queue i feeds receive
// queue i modulo their number.
func New(cfg Config) (port.Port, error) {
	if cfg.Name == "" {
		cfg.Name = "net_ring0"
	}
	size, err := ringSize(cfg.Name, cfg.Size)
	if err != nil {
		return nil, err
	}
	return newCable(size, cfg.Name).plug(0, cfg.Devargs), nil
}

// NewPair makes two ports with a ring of size packets (Config.Size) for each
// queue and direction between them. Transmit queue i of one feeds receive queue
// i, modulo their number, of the other.
//
// Packets that are sent to a port that is not started wait for its start, until
// the rings are full. They are freed when both are stopped, and those under way
// to a port when that one is stopped.
func NewPair(nameA, nameB string, size int) (a, b port.Port, err error) {
	if size, err = ringSize(nameA, size); err != nil {
		return nil, nil, err
	}
	if nameA == nameB {
		return nil, nil, fmt.Errorf("port: %s: %w: two ports need two names", nameA, port.ErrInvalid)
	}
	c := newCable(size, nameA, nameB)
	return c.plug(0, ""), c.plug(1, ""), nil
}

func ringSize(name string, size int) (int, error) {
	switch {
	case size == 0:
		return defaultSize, nil
	case size < 1 || size > maxSize:
		return 0, fmt.Errorf("port: %s: size=%d: %w: must be between 1 and %d", name, size, port.ErrInvalid, maxSize)
	default:
		return size, nil
	}
}

// ringPort is a port at one end of a cable. The cable's lock guards it.
type ringPort struct {
	name, devargs string
	mac           net.HardwareAddr
	cable         *cable
	near, far     *end // the same one on a port that is tied to itself

	conf     port.Config
	started  bool
	closed   bool
	promisc  bool
	allMulti bool
	listener func(port.Event)
	rx       []*rxQueue
	tx       []*txQueue
}

// newPort makes a port whose MAC address is derived from its name.
func newPort(c *cable, near, far *end, devargs string) *ringPort {
	h := fnv.New64a()
	h.Write([]byte(near.name))
	mac := net.HardwareAddr(h.Sum(nil)[:6])
	mac[0] = mac[0]&^1 | 2 // unicast, locally administered
	return &ringPort{name: near.name, devargs: devargs, mac: mac, cable: c, near: near, far: far, conf: port.Config{RxQueues: 1, TxQueues: 1}}
}

func (p *ringPort) failed(err error) error { return fmt.Errorf("port: %s: %w", p.name, err) }

func (p *ringPort) Name() string { return p.name }

func (p *ringPort) Info() port.Info {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	info := port.Info{
		Name: p.name, Driver: "net_ring", Devargs: p.devargs,
		MAC: p.mac, MTU: p.conf.MTU, MinMTU: minMTU, MaxMTU: maxMTU,
		RxQueues: p.conf.RxQueues, TxQueues: p.conf.TxQueues,
		MaxRxQueues: maxQueues, MaxTxQueues: maxQueues,
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

var limits = port.Limits{
	RxQueues: maxQueues, TxQueues: maxQueues,
	RxOffloads: port.RxScatter, TxOffloads: port.TxMultiSegs, OffloadHint: "a ring has none",
	MinMTU: minMTU, MaxMTU: maxMTU,
}

// Configure takes any number of descriptors: a ring has the size that it was
// made with.
func (p *ringPort) Configure(c port.Config) error {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
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

func (p *ringPort) Start() error {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	switch {
	case p.closed:
		return port.ErrClosed
	case p.conf.Pool == nil:
		return p.failed(fmt.Errorf("%w: configure the port before starting it", port.ErrState))
	case p.started:
		return p.failed(fmt.Errorf("%w: it is started already", port.ErrState))
	}
	for len(p.rx) < p.conf.RxQueues {
		p.rx = append(p.rx, &rxQueue{wire: p.near.in, first: len(p.rx)})
	}
	for len(p.tx) < p.conf.TxQueues {
		p.tx = append(p.tx, &txQueue{wire: p.far.in, index: len(p.tx)})
	}
	for _, q := range p.rx {
		q.step, q.turn, q.sleeps = p.conf.RxQueues, 0, p.conf.RxInterrupts
		if err := q.makeBell(); err != nil {
			return p.failed(err)
		}
	}
	p.far.in.widen(p.conf.TxQueues)
	for _, q := range p.tx[:p.conf.TxQueues] {
		q.lane = q.wire.lanes[q.index]
	}
	p.started = true
	if p.far != p.near {
		p.far.tell()
	}
	return nil
}

func (p *ringPort) Stop() error {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	p.stop()
	return nil
}

// stop frees what is under way and will not be received. What is under way to
// a port that runs is that one's.
func (p *ringPort) stop() {
	if !p.started {
		return
	}
	p.started = false
	p.near.in.drain()
	if !p.far.running() {
		p.far.in.drain()
	}
	p.far.tell()
}

// Close leaves the place at the cable to another port.
func (p *ringPort) Close() error {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	p.stop()
	if !p.closed {
		p.closed, p.near.port = true, nil
		for _, q := range p.rx {
			q.closeBell()
		}
	}
	return nil
}

func (p *ringPort) RxQueue(i int) port.RxQueue { return p.rx[i] }
func (p *ringPort) TxQueue(i int) port.TxQueue { return p.tx[i] }

func (p *ringPort) Stats() port.Stats {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	rx, tx := p.rx[:min(len(p.rx), p.conf.RxQueues)], p.tx[:min(len(p.tx), p.conf.TxQueues)]
	s := port.Stats{Rx: make([]port.QueueStats, len(rx)), Tx: make([]port.QueueStats, len(tx))}
	for i, q := range rx {
		s.Rx[i] = q.stats()
	}
	for i, q := range tx {
		s.Tx[i] = q.stats()
	}
	return s.Totals()
}

// Faults says which queues have stopped for good.
func (p *ringPort) Faults() (rx, tx []error) {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	if !p.started {
		return nil, nil
	}
	return port.FaultsOf(p.rx[:p.conf.RxQueues]), port.FaultsOf(p.tx[:p.conf.TxQueues])
}

func (p *ringPort) ResetStats() {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	for _, q := range p.rx {
		q.reset()
	}
	for _, q := range p.tx {
		q.reset()
	}
}

// Link is up while both ports are started.
func (p *ringPort) Link() port.Link {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	if !p.started || !p.far.running() {
		return port.Link{FullDuplex: true}
	}
	return port.Link{Up: true, Speed: speed, FullDuplex: true}
}

func (p *ringPort) Paths() port.Paths {
	path := port.Path{Name: "ring", Reason: "there is no device, buffers change hands"}
	return port.Paths{Rx: path, Tx: path}
}

// SetPromiscuous changes nothing: a port receives all that is sent to it.
func (p *ringPort) SetPromiscuous(on bool) error {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	p.promisc = on
	return nil
}

// SetAllMulticast changes nothing: a port receives all that is sent to it.
func (p *ringPort) SetAllMulticast(on bool) error {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	p.allMulti = on
	return nil
}

// AllMulticast reports what SetAllMulticast said.
func (p *ringPort) AllMulticast() bool {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	return p.allMulti
}

// Notify tells of port.LinkChange, when the other port starts or stops.
func (p *ringPort) Notify(f func(port.Event)) {
	p.cable.mu.Lock()
	defer p.cable.mu.Unlock()
	p.listener = f
}
