package testpmd

import (
	"errors"
	"fmt"
	"time"

	"vionet/port"
)

// portState is a port and what the console wants of it. Settings wait here
// until the next start of the port.
type portState struct {
	port.Port
	id      int
	started bool
	closed  bool

	rxOffloads port.RxOffloads
	txOffloads port.TxOffloads
	// Those of single queues differ from the port's where somebody asked
	// for it.
	rxQueueOffloads []port.RxOffloads
	txQueueOffloads []port.TxOffloads
	rxQueues        []queueState
	txQueues        []queueState
	mtu             int // 0: as it is
	applied         port.Config
	vlan            port.RxOffloads // what is done with VLAN tags now

	peer     [6]byte // who is behind the port
	tunnels  bool    // csum parse-tunnel
	keepMACs bool    // csum mac-swap off
	tsoSize  int
	txVLAN   uint16

	shown showing
}

// showing is what the last "show port stats" saw.
type showing struct {
	at    time.Time
	stats port.Stats
}

// rate is how fast a counter grew since then, in counts a second.
func (s showing) rate(count, before uint64, now time.Time) uint64 {
	if s.at.IsZero() || count < before {
		return 0
	}
	return uint64(float64(count-before) / now.Sub(s.at).Seconds())
}

func newPortState(id int, p port.Port, opts Options) *portState {
	s := &portState{Port: p, id: id, rxOffloads: opts.RxOffloads, txOffloads: opts.TxOffloads}
	if opts.MaxPktLen > 0 {
		s.mtu = opts.MaxPktLen - int(frameOverhead(p.Info()))
	}
	s.resetPeer(opts)
	s.resizeQueues(1, 1)
	return s
}

// resetPeer puts who was behind the port at the start there again.
func (p *portState) resetPeer(opts Options) {
	p.peer = [6]byte{2, 0, 0, 0, 0, byte(p.id)}
	if mac, ok := opts.Peers[p.id]; ok {
		p.peer = mac
	}
}

// resizeQueues makes the per-queue settings as many as there are queues; new
// queues begin with the port's.
func (p *portState) resizeQueues(rx, tx int) {
	p.rxQueueOffloads = resized(p.rxQueueOffloads, rx, p.rxOffloads)
	p.txQueueOffloads = resized(p.txQueueOffloads, tx, p.txOffloads)
	p.rxQueues = resized(p.rxQueues, rx, queueState{})
	p.txQueues = resized(p.txQueues, tx, queueState{})
}

// resized cuts list to n items, or fills it up with more of one.
func resized[T any](list []T, n int, more T) []T {
	for len(list) < n {
		list = append(list, more)
	}
	return list[:n]
}

// requestRx and requestTx change offloads of the port and all its queues.
func (p *portState) requestRx(o port.RxOffloads, on bool) {
	p.rxOffloads = with(p.rxOffloads, o, on)
	for i := range p.rxQueueOffloads {
		p.rxQueueOffloads[i] = with(p.rxQueueOffloads[i], o, on)
	}
}

func (p *portState) requestTx(o port.TxOffloads, on bool) {
	p.txOffloads = with(p.txOffloads, o, on)
	for i := range p.txQueueOffloads {
		p.txQueueOffloads[i] = with(p.txQueueOffloads[i], o, on)
	}
}

func with[O ~uint64](set, o O, on bool) O {
	if on {
		return set | o
	}
	return set &^ o
}

// wanted is the configuration that the next start applies.
func (c *Console) wanted(p *portState) (port.Config, error) {
	opts := c.Options
	want := port.Config{
		RxQueues: opts.RxQueues, TxQueues: opts.TxQueues, TxFreeThresh: opts.TxThresholds.Free,
		RxOffloads: p.rxOffloads, TxOffloads: p.txOffloads,
		RxInterrupts: opts.sleeps(), TxInterrupts: opts.sleeps(),
		MTU: p.mtu, RSS: c.rssWanted(p), Pool: c.Pool,
	}
	var err error
	if want.RxDesc, err = ringOf(resized(p.rxQueues, opts.RxQueues, queueState{}), opts.RxDesc); err != nil {
		return want, fmt.Errorf("rx %w", err)
	}
	if want.TxDesc, err = ringOf(resized(p.txQueues, opts.TxQueues, queueState{}), opts.TxDesc); err != nil {
		return want, fmt.Errorf("tx %w", err)
	}
	return want, nil
}

// sameConfig reports whether two configurations ask for the same.
func sameConfig(a, b port.Config) bool {
	if (a.RSS == nil) != (b.RSS == nil) || a.RSS != nil && a.RSS.Types != b.RSS.Types {
		return false
	}
	a.RSS, b.RSS = nil, nil
	return a == b
}

// configure brings the port to what is wanted, if it is not there already.
// What fails stays wanted.
func (c *Console) configure(p *portState) bool {
	want, err := c.wanted(p)
	if err == nil && sameConfig(want, p.applied) && plain(p.rxQueueOffloads, p.rxOffloads) && plain(p.txQueueOffloads, p.txOffloads) {
		return true
	}
	c.printf("Configuring Port %d (socket 0)\n", p.id)
	if err != nil {
		c.errorf("%v\nFail to configure port %d\n", err, p.id)
		return false
	}
	if err := c.apply(p, want); err != nil {
		c.errorf("%v\nFail to configure port %d\n", err, p.id)
		return false
	}
	if err := checkQueues(p.id, "rx", p.rxQueueOffloads, p.rxOffloads); err != nil {
		c.errorf("%v\nFail to configure port %d rx queues\n", err, p.id)
		return false
	}
	if err := checkQueues(p.id, "tx", p.txQueueOffloads, p.txOffloads); err != nil {
		c.errorf("%v\nFail to configure port %d tx queues\n", err, p.id)
		return false
	}
	p.applied = want
	p.vlan = want.RxOffloads & vlanModes
	p.resizeQueues(want.RxQueues, want.TxQueues)
	return true
}

// apply gives a configuration to the port.
func (c *Console) apply(p *portState, want port.Config) error {
	info := p.Info()
	if err := checkOffloads(p.id, "Rx", want.RxOffloads, info.RxCapa); err != nil {
		return err
	}
	if err := checkOffloads(p.id, "Tx", want.TxOffloads, info.TxCapa); err != nil {
		return err
	}
	return p.Configure(want)
}

// reapply stops a started port and starts it again with one thing changed, for
// settings that other drivers change while packets move. A port that does not
// take the change goes on with what it had.
func (c *Console) reapply(p *portState, change func(*port.Config)) error {
	want := p.applied
	if change(&want); sameConfig(want, p.applied) {
		return nil
	}
	if err := p.Stop(); err != nil {
		return err
	}
	err := c.apply(p, keepRSS(want))
	if err == nil {
		if err = p.Start(); err == nil {
			p.applied = want
			return nil
		}
		err = errors.Join(err, p.Configure(keepRSS(p.applied)))
	}
	if failed := p.Start(); failed != nil {
		p.started = false
		err = errors.Join(err, failed)
	}
	return err
}

// keepRSS makes a configuration ask for RSS as it is set by now.
func keepRSS(cfg port.Config) port.Config {
	if cfg.RSS != nil {
		cfg.RSS = &port.RSS{}
	}
	return cfg
}

// plain reports whether no queue asks for more than the port.
func plain[O ~uint64](queues []O, set O) bool {
	for _, q := range queues {
		if q&^set != 0 {
			return false
		}
	}
	return true
}

// checkOffloads refuses what is wanted and not there.
func checkOffloads[O ~uint64](id int, dir string, want, capa O) error {
	if want&^capa == 0 {
		return nil
	}
	return complaint(fmt.Sprintf("Ethdev port_id=%d requested %s offloads 0x%x doesn't match %s offloads capabilities 0x%x in rte_eth_dev_configure()", id, dir, uint64(want), dir, uint64(capa)))
}

// checkQueues refuses what single queues want beyond the port: every offload
// is one of the port as a whole.
func checkQueues[O ~uint64](id int, dir string, queues []O, set O) error {
	for i, q := range queues {
		if extra := q &^ set; extra != 0 {
			return complaint(fmt.Sprintf("Ethdev port_id=%d %s_queue_id=%d, new added offloads 0x%x must be within per-queue offload capabilities 0x0 in rte_eth_%s_queue_setup()", id, dir, i, uint64(extra), dir))
		}
	}
	return nil
}

// portsOf gives the open ports that word i of the line names, a number or
// "all"; a number that is none gets a complaint, and ok is false.
func (c *Console) portsOf(a args, i int) (list []*portState, ok bool) {
	if a[i] == "all" {
		return c.openPorts(), true
	}
	if p := c.portOf(a, i); p != nil {
		return []*portState{p}, true
	}
	return nil, false
}

// portOf gives the open port with the number at word i, or nil after a
// complaint.
func (c *Console) portOf(a args, i int) *portState {
	if p := c.lookup(a.num(i)); p != nil {
		return p
	}
	c.errorf("Invalid port %d\n", a.num(i))
	return nil
}

// lookup gives the open port of that number, or nil.
func (c *Console) lookup(id uint64) *portState {
	if id < uint64(len(c.ports)) && !c.ports[id].closed {
		return c.ports[id]
	}
	return nil
}

func (c *Console) openPorts() []*portState {
	var open []*portState
	for _, p := range c.ports {
		if !p.closed {
			open = append(open, p)
		}
	}
	return open
}

// stopped gives the port at word i if it is stopped, or nil after a
// complaint.
func (c *Console) stoppedPort(a args, i int) *portState {
	p := c.portOf(a, i)
	if p != nil && p.started {
		c.errorf("Please stop port %d first\n", p.id)
		return nil
	}
	return p
}

// forwards reports whether the port takes part in forwarding that runs.
func (c *Console) forwards(p *portState) bool {
	return c.fwd != nil && c.fwd.uses(p.id)
}
