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
	mtu             int // 0: as it is
	applied         port.Config

	peer     [6]byte // who is behind the port
	tunnels  bool    // csum parse-tunnel
	keepMACs bool    // csum mac-swap off
	tsoSize  int
	vlan     uint16

	shown showing
}

// showing is what the last "show port stats" saw.
type showing struct {
	at    time.Time
	stats port.Stats
}

func newPortState(id int, p port.Port, opts Options) *portState {
	s := &portState{Port: p, id: id, rxOffloads: opts.RxOffloads, txOffloads: opts.TxOffloads}
	s.peer = [6]byte{2, 0, 0, 0, 0, byte(id)}
	if mac, ok := opts.Peers[id]; ok {
		s.peer = mac
	}
	s.resizeQueues(1, 1)
	return s
}

// resizeQueues makes the per-queue settings as many as there are queues; new
// queues begin with the port's.
func (p *portState) resizeQueues(rx, tx int) {
	for len(p.rxQueueOffloads) < rx {
		p.rxQueueOffloads = append(p.rxQueueOffloads, p.rxOffloads)
	}
	for len(p.txQueueOffloads) < tx {
		p.txQueueOffloads = append(p.txQueueOffloads, p.txOffloads)
	}
	p.rxQueueOffloads, p.txQueueOffloads = p.rxQueueOffloads[:rx], p.txQueueOffloads[:tx]
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
func (c *Console) wanted(p *portState) port.Config {
	return port.Config{
		RxQueues: c.Options.RxQueues, TxQueues: c.Options.TxQueues,
		RxDesc: c.Options.RxDesc, TxDesc: c.Options.TxDesc,
		RxOffloads: p.rxOffloads, TxOffloads: p.txOffloads,
		MTU: p.mtu, Pool: c.Pool,
	}
}

// configure brings the port to what is wanted, if it is not there already.
// What fails stays wanted.
func (c *Console) configure(p *portState) bool {
	want := c.wanted(p)
	rx, tx := p.rxQueueOffloads, p.txQueueOffloads
	if want == p.applied && plain(rx, p.rxOffloads) && plain(tx, p.txOffloads) {
		return true
	}
	c.printf("Configuring Port %d (socket 0)\n", p.id)
	info := p.Info()
	complaint := checkOffloads(p.id, "Rx", want.RxOffloads, info.RxCapa)
	if complaint == "" {
		complaint = checkOffloads(p.id, "Tx", want.TxOffloads, info.TxCapa)
	}
	if complaint == "" {
		if err := p.Configure(want); err != nil {
			complaint = err.Error()
		}
	}
	if complaint != "" {
		c.errorf("%s\nFail to configure port %d\n", complaint, p.id)
		return false
	}
	if complaint := checkQueues(p.id, "rx", rx, p.rxOffloads); complaint != "" {
		c.errorf("%s\nFail to configure port %d rx queues\n", complaint, p.id)
		return false
	}
	if complaint := checkQueues(p.id, "tx", tx, p.txOffloads); complaint != "" {
		c.errorf("%s\nFail to configure port %d tx queues\n", complaint, p.id)
		return false
	}
	p.applied = want
	p.resizeQueues(want.RxQueues, want.TxQueues)
	return true
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

// checkOffloads gives a complaint about what is wanted and not there.
func checkOffloads[O ~uint64](id int, dir string, want, capa O) string {
	if want&^capa == 0 {
		return ""
	}
	return fmt.Sprintf("Ethdev port_id=%d requested %s offloads 0x%x doesn't match %s offloads capabilities 0x%x in rte_eth_dev_configure()", id, dir, uint64(want), dir, uint64(capa))
}

// checkQueues refuses what single queues want beyond the port: every offload
// is one of the port as a whole.
func checkQueues[O ~uint64](id int, dir string, queues []O, set O) string {
	for i, q := range queues {
		if extra := q &^ set; extra != 0 {
			return fmt.Sprintf("Ethdev port_id=%d %s_queue_id=%d, new added offloads 0x%x must be within per-queue offload capabilities 0x0 in rte_eth_%s_queue_setup()", id, dir, i, uint64(extra), dir)
		}
	}
	return ""
}

// portsOf gives the open ports that word i of the line names, a number or
// "all", and complains about a number that is none.
func (c *Console) portsOf(a args, i int) []*portState {
	if a[i] != "all" {
		if p := c.portOf(a, i); p != nil {
			return []*portState{p}
		}
		return nil
	}
	return c.openPorts()
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

// errText is the text of an error as testpmd has it where there is one.
func errText(err error) string {
	if errors.Is(err, port.ErrNotSupported) {
		return "Operation not supported"
	}
	return err.Error()
}
