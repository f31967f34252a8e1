package testpmd

import (
	"fmt"
	"strings"

	"vionet/port"
	"vionet/testpmd/engine"
)

// queueState is what the console wants of one queue beside its offloads.
type queueState struct {
	stopped  bool // left out of forwarding
	deferred bool // stopped by every start of the port
	ring     int  // descriptors; 0: the port's
}

func (s queueState) String() string {
	if s.stopped {
		return "stopped"
	}
	return "started"
}

func queueCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port config (port_id) (rxq|txq) (queue_id) ring_size (value)", help: "Set the number of descriptors of a queue; it takes effect at the next start of the port or set-up of the queue.", run: (*Console).queueRingSize},
		{section: portsSection, pattern: "port (port_id) (rxq|txq) (queue_id) (start|stop)", help: "Let a queue of a started port take part in forwarding, or leave it out.", run: (*Console).queueSwitch},
		{section: portsSection, pattern: "port (port_id) (rxq|txq) (queue_id) deferred_start (on|off)", help: "Choose whether a start of the port leaves the queue stopped.", run: (*Console).queueDefer},
		{section: portsSection, pattern: "port (port_id) (rxq|txq) (queue_id) setup", help: "Set a queue of a started port up anew, with the settings made since; its port is stopped and started for it.", run: (*Console).queueSetup},
		{section: portsSection, pattern: "port cleanup (port_id) txq (queue_id) (free_cnt)", help: "Take back the packets of a transmit queue that were sent.", run: (*Console).queueCleanup},
	}
}

// queues gives the states of the receive (dir "rxq" or "rx") or transmit queues
// of the port.
func (p *portState) queues(dir string) []queueState {
	if strings.HasPrefix(dir, "rx") {
		return p.rxQueues
	}
	return p.txQueues
}

// configuredQueue gives n as the number of a queue of the port, or -1 after a
// complaint.
func (c *Console) configuredQueue(p *portState, dir string, n uint64) int {
	count := len(p.queues(dir))
	if n < uint64(count) {
		return int(n)
	}
	dir = dir[:2]
	c.errorf("Invalid %s queue %d (must be < nb_%sq=%d)\n", strings.ToUpper(dir), n, dir, count)
	return -1
}

func (c *Console) queueRingSize(a args) {
	p := c.portOf(a, 2)
	if p == nil {
		return
	}
	q := c.configuredQueue(p, a[3], a.num(4))
	if q < 0 {
		return
	}
	name := map[string]string{"rxq": "rxd", "txq": "txd"}[a[3]]
	if complaint := CheckLimit(name, a.num(6), p.id, p.Info()); complaint != "" && a.num(6) != 0 {
		c.errorf("%s\n", complaint)
		return
	}
	p.queues(a[3])[q].ring = int(a.num(6))
}

// queueSwitch starts or stops a queue. The device keeps it: what it receives
// waits in the ring, and forwarding never looks at it.
func (c *Console) queueSwitch(a args) {
	p := c.portOf(a, 1)
	switch {
	case c.fwd != nil:
		c.errorf("Please stop forwarding first\n")
		return
	case p == nil:
		return
	case !p.started:
		c.errorf("Please start port %d first\n", p.id)
		return
	}
	q := c.configuredQueue(p, a[2], a.num(3))
	if q < 0 {
		return
	}
	state, stop := &p.queues(a[2])[q], a[4] == "stop"
	if state.stopped == stop {
		c.errorf("Queue %d of device with port_id=%d already %v\n", q, p.id, *state)
		return
	}
	state.stopped = stop
}

func (c *Console) queueDefer(a args) {
	p := c.stoppedPort(a, 1)
	if p == nil {
		return
	}
	if q := c.configuredQueue(p, a[2], a.num(3)); q >= 0 {
		p.queues(a[2])[q].deferred = a.on(5)
	}
}

func (c *Console) queueSetup(a args) {
	p := c.portOf(a, 1)
	if p == nil {
		return
	}
	dir := strings.ToUpper(a[2][:2])
	if c.configuredQueue(p, a[2], a.num(3)) < 0 {
		c.errorf("Invalid %s queue\n", strings.ToLower(dir))
		return
	}
	if !p.started {
		return // its start does it
	}
	if c.forwards(p) {
		c.errorf("Please stop forwarding first\nFailed to setup %s queue\n", dir)
		return
	}
	want, err := c.wanted(p)
	if err == nil {
		err = c.reapply(p, func(cfg *port.Config) { cfg.RxDesc, cfg.TxDesc = want.RxDesc, want.TxDesc })
	}
	if err != nil {
		c.errorf("%v\nFailed to setup %s queue\n", err, dir)
	}
}

func (c *Console) queueCleanup(a args) {
	p, n := c.lookup(a.num(2)), a.num(4)
	switch {
	case p == nil:
		c.errorf("Invalid port_id=%d\nFailed to get port %d Tx queue %d info\n", a.num(2), a.num(2), n)
	case n >= uint64(len(p.txQueues)):
		c.errorf("Invalid Tx queue_id=%d\nFailed to get port %d Tx queue %d info\n", n, p.id, n)
	case !p.started || p.txQueues[n].stopped:
		c.errorf("Tx queue %d not started\n", n)
	case c.forwards(p):
		c.errorf("Please stop forwarding first\n")
	default:
		c.printf("Cleanup port %d Tx queue %d mbuf nums: %d\n", p.id, n, p.TxQueue(int(n)).Reclaim())
	}
}

// ringOf is the size of the rings of all queues of one direction: what was set
// for them, or all.
func ringOf(queues []queueState, all int) (int, error) {
	size := func(s queueState) int {
		if s.ring != 0 {
			return s.ring
		}
		return all
	}
	for i, s := range queues {
		if size(s) != size(queues[0]) {
			return 0, fmt.Errorf("queue %d has ring_size %d and queue 0 has %d: all queues of a port must have the same", i, size(s), size(queues[0]))
		}
	}
	if len(queues) == 0 {
		return all, nil
	}
	return size(queues[0]), nil
}

// ends reports whether a stream of the mode needs its receive and its transmit
// queue.
func ends(mode *engine.Engine) (rx, tx bool) {
	return mode != engine.TxOnly, mode != engine.RxOnly
}

// idle reports whether the way of packets is closed by a queue that was
// stopped.
func (c *Console) idle(l link) bool {
	rx, tx := ends(c.mode)
	return rx && c.ports[l.rxPort].rxQueues[l.rxQueue].stopped || tx && c.ports[l.txPort].txQueues[l.txQueue].stopped
}
