package vhost

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// PortConfig says what a port on a back end is like. ParsePortDevargs makes one.
type PortConfig struct {
	Name    string // "net_vhost0" if empty
	Devargs string // the arguments as they were written, for people
	ID      int    // the port's number, for mbuf.Buf.Port
	Path    string // the unix socket; must be given
	Client  bool   // connect to a front end that listens there, instead of listening
	Queues  int    // queue pairs, 1 to 128; 0: 1
	TSO     bool   // offer segmentation, both ways
	Packed  bool   // offer packed virtqueues beside split ones
	IOMMU   bool   // offer to work behind the guest's IOMMU
	// ZeroCopy leaves received frames of 256 bytes and more in the guest's memory,
	// until they are freed (dequeue zero copy): in memory files that are sealed
	// against shrinking. With TrustGuest in others, too: a guest that shrinks one
	// ends this process.
	ZeroCopy, TrustGuest bool
	MTU                  int             // the MTU in bytes that the guest shall use, 68 to 65535; 0: any
	Mask                 virtio.Features // features not to offer
	Log                  *slog.Logger    // nil: silence

	// SocketMode is who may connect to the socket; 0: its user and root only
	// (0600).
	SocketMode fs.FileMode
}

// Bounds of a port.
const (
	portMaxMTU   = 65535 - 18
	portMTU      = 1500
	portSpeed    = 10_000
	portMinBuf   = 64 // bytes of a frame that a buffer must hold
	portOverhead = 14 // of the Ethernet header
)

// tsoFeatures are what TSO is about.
const tsoFeatures = virtio.NetHostTSO4 | virtio.NetHostTSO6 | virtio.NetHostECN |
	virtio.NetGuestTSO4 | virtio.NetGuestTSO6 | virtio.NetGuestECN

// vhostPort is a port whose other end is a guest: it receives what the guest
// sends, and sends what the guest receives. Without a guest its link is down
// and its bursts are empty.
//
// A burst takes the lock of its virtqueue once. It is free but while the front
// end starts or stops the ring or changes its memory, which then waits for the
// burst; see Queue.
type vhostPort struct {
	cfg     PortConfig
	mac     net.HardwareAddr
	backend *Backend

	linkUp atomic.Bool // as the application was told last
	notify atomic.Pointer[func(port.Event)]
	done   chan struct{}
	worker sync.WaitGroup

	mu      sync.Mutex
	conf    port.Config
	active  port.Config // of the last Start
	started bool
	closed  bool
	promisc bool
	stopped chan struct{} // closed by Stop
	rx      []*portRx
	tx      []*portTx
}

// NewPort makes a port on a vhost-user back end of its own. A front end may
// connect from then on, before and after the port is started; while the port is
// stopped, the guest sees its link down.
func NewPort(cfg PortConfig) (port.Port, error) {
	if cfg.Name == "" {
		cfg.Name = "net_vhost0"
	}
	if cfg.Path == "" {
		return nil, fmt.Errorf("vhost: %s: no iface= of a vhost-user socket", cfg.Name)
	}
	if !cfg.TSO {
		cfg.Mask |= tsoFeatures
	}
	b, err := newBackend(BackendConfig{Pairs: cfg.Queues, Packed: cfg.Packed, MTU: cfg.MTU, IOMMU: cfg.IOMMU, Mask: cfg.Mask, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	b.linkDown = true
	if cfg.Client {
		b.seek = cfg.Path
	} else if b.listener, err = listen(cfg.Path, cfg.SocketMode); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	p := &vhostPort{
		cfg: cfg, mac: portStation(cfg.Name), backend: b, done: make(chan struct{}),
		conf: port.Config{RxQueues: 1, TxQueues: 1},
	}
	for i := range b.Pairs() {
		b.TxQueue(i).lends = cfg.lends()
		p.rx = append(p.rx, &portRx{dev: b.TxQueue(i), backend: b, id: uint16(cfg.ID)})
		p.tx = append(p.tx, &portTx{dev: b.RxQueue(i)})
	}
	b.run()
	p.worker.Go(p.watch)
	return p, nil
}

func (c *PortConfig) lends() lendPolicy {
	switch {
	case !c.ZeroCopy:
		return lendNone
	case c.TrustGuest:
		return lendAny
	default:
		return lendSealed
	}
}

// portStation is the MAC address of the port of that name: the letters of vhost
// and the number in the name.
func portStation(name string) net.HardwareAddr {
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	n, _ := strconv.ParseUint(digits, 10, 8)
	return net.HardwareAddr{'V', 'H', 'O', 'S', 'T', byte(n)}
}

func (p *vhostPort) failed(err error) error { return fmt.Errorf("vhost: %s: %w", p.cfg.Name, err) }

func (p *vhostPort) Name() string { return p.cfg.Name }

// Info describes the port.
func (p *vhostPort) Info() port.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	rx, tx := p.capabilities()
	info := port.Info{
		Name: p.cfg.Name, Driver: "net_vhost", Devargs: p.cfg.Devargs,
		MAC: p.mac, MTU: p.conf.MTU, MinMTU: virtio.MinMTU, MaxMTU: portMaxMTU,
		RxQueues: p.conf.RxQueues, TxQueues: p.conf.TxQueues,
		MaxRxQueues: len(p.rx), MaxTxQueues: len(p.tx),
		RxDesc: p.conf.RxDesc, TxDesc: p.conf.TxDesc, MaxDesc: maxQueueSize,
		MinRxBufSize: portMinBuf, MaxRxPktLen: maxFrame, MaxMACs: 1, Promiscuous: p.promisc,
		Paths:   p.Paths(),
		RxLends: p.cfg.ZeroCopy,
		RxCapa:  rx, TxCapa: tx, RxActive: p.active.RxOffloads, TxActive: p.active.TxOffloads,
	}
	if info.MTU == 0 {
		info.MTU = portMTU
	}
	return info
}

// capabilities are the offloads that the port has, whatever the guest has.
// Large packets go to the guest as they are where it takes them, and in segments
// where it does not.
func (p *vhostPort) capabilities() (rx port.RxOffloads, tx port.TxOffloads) {
	rx = port.RxVLANStrip | port.RxUDPCksum | port.RxTCPCksum | port.RxScatter
	tx = port.TxVLANInsert | port.TxUDPCksum | port.TxTCPCksum | port.TxMultiSegs
	if p.cfg.TSO {
		rx |= port.RxTCPLRO
		tx |= port.TxTCPTSO
	}
	return rx, tx
}

// Configure records what the next Start asks for. The number of descriptors is
// the guest's affair, and so is the size of its packets.
func (p *vhostPort) Configure(c port.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.RxQueues, c.TxQueues = max(c.RxQueues, 1), max(c.TxQueues, 1)
	rx, tx := p.capabilities()
	if c.WhereAvailable {
		c.RxOffloads &= rx
		c.TxOffloads &= tx
		c.RxQueues, c.TxQueues = min(c.RxQueues, len(p.rx)), min(c.TxQueues, len(p.tx))
	}
	switch {
	case p.closed:
		return p.failed(port.ErrClosed)
	case p.started:
		return p.failed(fmt.Errorf("%w: stop the port before configuring it", port.ErrState))
	case c.RxQueues > len(p.rx) || c.TxQueues > len(p.tx):
		return p.failed(fmt.Errorf("%d receive and %d transmit queues: %w: at most %d, raise queues=", c.RxQueues, c.TxQueues, port.ErrInvalid, len(p.rx)))
	case c.RxOffloads&^rx != 0:
		return p.failed(fmt.Errorf("offload on reception, %v: %w", c.RxOffloads&^rx, port.ErrNotSupported))
	case c.TxOffloads&^tx != 0:
		return p.failed(fmt.Errorf("offload on transmission, %v: %w", c.TxOffloads&^tx, port.ErrNotSupported))
	case c.RSS != nil:
		return p.failed(fmt.Errorf("RSS: %w: the guest chooses the queue", port.ErrNotSupported))
	case c.MTU != 0 && (c.MTU < virtio.MinMTU || c.MTU > portMaxMTU):
		return p.failed(fmt.Errorf("MTU %d: %w: must be between %d and %d", c.MTU, port.ErrInvalid, virtio.MinMTU, portMaxMTU))
	case c.Pool == nil:
		return p.failed(fmt.Errorf("%w: a pool for the received packets is missing", port.ErrInvalid))
	case c.Pool.BufSize()-mbuf.Headroom < portMinBuf:
		return p.failed(fmt.Errorf("buffers of %d bytes: %w: must have at least %d", c.Pool.BufSize(), port.ErrInvalid, portMinBuf+mbuf.Headroom))
	}
	p.conf = c
	return nil
}

// Start makes the port's queues work, whether a front end is there or not.
func (p *vhostPort) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return p.failed(port.ErrClosed)
	case p.conf.Pool == nil:
		return p.failed(fmt.Errorf("%w: configure the port before starting it", port.ErrState))
	case p.started:
		return p.failed(fmt.Errorf("%w: it is started already", port.ErrState))
	}
	p.started, p.active, p.stopped = true, p.conf, make(chan struct{})
	if err := p.startQueues(); err != nil {
		p.stop()
		return p.failed(err)
	}
	p.backend.SetLink(true)
	p.linkUp.Store(p.link().Up)
	return nil
}

func (p *vhostPort) startQueues() error {
	var errs []error
	for _, q := range p.rx[:p.active.RxQueues] {
		errs = append(errs, q.start(&p.active, p.stopped))
	}
	for _, q := range p.tx[:p.active.TxQueues] {
		errs = append(errs, q.start(&p.active))
	}
	return errors.Join(errs...)
}

// Stop ends all traffic. The guest stays connected and sees the link down.
func (p *vhostPort) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	return nil
}

func (p *vhostPort) stop() {
	if !p.started {
		return
	}
	p.started = false
	p.linkUp.Store(false)
	close(p.stopped)
	for _, q := range p.rx[:p.active.RxQueues] {
		q.release()
	}
	for _, q := range p.tx[:p.active.TxQueues] {
		q.release()
	}
	p.backend.SetLink(false)
}

// Close stops the port, and ends the connection and the back end.
func (p *vhostPort) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.stop()
	p.closed = true
	p.mu.Unlock()
	close(p.done)
	p.worker.Wait()
	return p.backend.Close()
}

func (p *vhostPort) RxQueue(i int) port.RxQueue { return p.rx[i] }
func (p *vhostPort) TxQueue(i int) port.TxQueue { return p.tx[i] }

// Stats reads the counters.
func (p *vhostPort) Stats() port.Stats {
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

// Faults says which queues the guest has broken.
func (p *vhostPort) Faults() (rx, tx []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return nil, nil
	}
	return port.FaultsOf(p.rx[:p.active.RxQueues]), port.FaultsOf(p.tx[:p.active.TxQueues])
}

// ResetStats makes the counters start from 0.
func (p *vhostPort) ResetStats() {
	for _, q := range p.rx {
		q.reset()
	}
	for _, q := range p.tx {
		q.reset()
	}
}

// Link is up while a front end has rings running.
func (p *vhostPort) Link() port.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link()
}

func (p *vhostPort) link() port.Link {
	if !p.started || !p.backend.running.Load() {
		return port.Link{FullDuplex: true}
	}
	return port.Link{Up: true, Speed: portSpeed, FullDuplex: true}
}

// Paths says how frames move, and how many are in use in the guest's memory.
func (p *vhostPort) Paths() port.Paths {
	path := port.Path{Name: "vhost", Reason: "frames are copied between buffers and the guest's memory"}
	paths := port.Paths{Rx: path, Tx: path}
	if p.cfg.ZeroCopy {
		paths.Rx = port.Path{Name: "vhost zero copy", Reason: p.lentNow()}
	}
	return paths
}

func (p *vhostPort) lentNow() string {
	text := fmt.Sprintf("frames of %d bytes and more stay in the guest's memory; in use now:", lendMin)
	for i, q := range p.rx {
		text += fmt.Sprintf(" %d of queue %d,", q.dev.Lent(), i)
	}
	return strings.TrimSuffix(text, ",")
}

// SetPromiscuous changes nothing but Info: all that the guest sends comes.
func (p *vhostPort) SetPromiscuous(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promisc = on
	return nil
}

// Notify registers the function that is told of link changes.
func (p *vhostPort) Notify(f func(port.Event)) {
	if f == nil {
		p.notify.Store(nil)
		return
	}
	p.notify.Store(&f)
}

// watch tells of the front end's coming and going, until Close.
func (p *vhostPort) watch() {
	for {
		select {
		case <-p.backend.changed:
		case <-p.done:
			return
		}
		p.mu.Lock()
		up := p.link().Up
		changed := p.started && p.linkUp.Swap(up) != up
		p.mu.Unlock()
		if f := p.notify.Load(); changed && f != nil {
			(*f)(port.LinkChange)
		}
	}
}
