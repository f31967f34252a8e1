package testpmd

import (
	"strings"

	"vionet/port"
)

func queueInfoCommands() []*command {
	return []*command{
		{section: displaySection, pattern: "show rxq info (port_id) (queue_id)", help: "Show how a receive queue is set up.", run: (*Console).showRxQueue, json: (*Console).rxQueueJSON},
		{section: displaySection, pattern: "show txq info (port_id) (queue_id)", help: "Show how a transmit queue is set up.", run: (*Console).showTxQueue, json: (*Console).txQueueJSON},
		{section: displaySection, pattern: "show port (port_id) (rxq|txq) (queue_id) desc (desc_id) status", help: "Refused: a virtqueue says nothing of a single descriptor.", run: (*Console).showDescriptor},
		{section: displaySection, pattern: "show port (port_id) rxq (queue_id) desc used count", help: "Refused: receive bursts alone look at what the device used.", run: (*Console).showUsedCount},
	}
}

// shownQueue gives the port and queue at words 3 and 4, or nil after a
// complaint.
func (c *Console) shownQueue(a args) (p *portState, q int) {
	id, n, dir := a.num(3), a.num(4), a[1]
	fail := func(first string, number uint64, errno int, text string) {
		c.errorf("Invalid %s=%d\nFailed to retrieve information for port: %d, %s queue: %d\nerror desc: %s(%d)\n",
			first, number, id, strings.ToUpper(dir[:2]), n, text, errno)
	}
	p = c.lookup(id)
	switch {
	case p == nil:
		fail("port_id", id, -19, "No such device")
		return nil, 0
	case n >= uint64(len(p.queues(dir))):
		fail(strings.ToUpper(dir[:1])+"x queue_id", n, -22, "Invalid argument")
		return nil, 0
	}
	return p, int(n)
}

// queueState is a queue's state in words; those of a stopped port do nothing.
func (p *portState) queueState(dir string, q int) string {
	if !p.started {
		return "stopped"
	}
	return p.queues(dir)[q].String()
}

// descriptors is the size of a queue's ring: that of the device when the port
// is started, or else what its next start asks for.
func (p *portState) descriptors(now int, s queueState, all int) int {
	switch {
	case p.started:
		return now
	case s.ring != 0:
		return s.ring
	case all != 0:
		return all
	}
	return now
}

// rxQueueText is what "show rxq info" shows, with one verb a value.
const rxQueueText = `
********************* Infos for port %-2d, RX queue %-2d *********************
Mempool: %s
RX prefetch threshold: %d
RX host threshold: %d
RX writeback threshold: %d
RX free threshold: %d
RX drop packets: %s
RX deferred start: %s
RX scattered packets: %s
Rx queue state: %s
RX buffer size: %d
Number of RXDs: %d
`

func (c *Console) showRxQueue(a args) {
	p, q := c.shownQueue(a)
	if p == nil {
		return
	}
	th, state := c.Options.RxThresholds, p.rxQueues[q]
	c.printf(rxQueueText, p.id, q, c.Pool.Name(), th.Prefetch, th.Host, th.WriteBack, th.Free,
		onOff(c.Options.DropEnable), onOff(state.deferred), onOff(p.rxQueueOffloads[q]&port.RxScatter != 0),
		p.queueState("rxq", q), TxRoom(c.Pool), p.descriptors(p.Info().RxDesc, state, c.Options.RxDesc))
	c.printBurstMode(p, p.Paths().Rx)
}

// txQueueText is what "show txq info" shows, with one verb a value.
const txQueueText = `
********************* Infos for port %-2d, TX queue %-2d *********************
TX prefetch threshold: %d
TX host threshold: %d
TX writeback threshold: %d
TX RS threshold: %d
TX free threshold: %d
TX deferred start: %s
Number of TXDs: %d
Tx queue state: %s
`

func (c *Console) showTxQueue(a args) {
	p, q := c.shownQueue(a)
	if p == nil {
		return
	}
	th, state := c.Options.TxThresholds, p.txQueues[q]
	desc := p.descriptors(p.Info().TxDesc, state, c.Options.TxDesc)
	free := th.Free
	if free == 0 {
		free = desc / 4
	}
	c.printf(txQueueText, p.id, q, th.Prefetch, th.Host, th.WriteBack, th.RS, free, onOff(state.deferred), desc, p.queueState("txq", q))
	c.printBurstMode(p, p.Paths().Tx)
}

func (c *Console) printBurstMode(p *portState, path port.Path) {
	if p.started && path.Name != "" {
		c.printf("Burst mode: %s\n", burstMode(path.Name))
	}
}

// burstMode is the name of a burst function in the manner of testpmd.
func burstMode(path string) string {
	if path == "standard" {
		return "Scalar"
	}
	return "Scalar " + strings.TrimSuffix(path, " buffer")
}

func (c *Console) showDescriptor(a args) {
	if c.lookup(a.num(2)) == nil {
		c.errorf("invalid port id %d\n", a.num(2))
		return
	}
	c.errorf("Invalid input: queue id = %d, desc id = %d\n", a.num(4), a.num(6))
}

func (c *Console) showUsedCount(a args) {
	if c.lookup(a.num(2)) == nil {
		c.errorf("invalid port id %d\n", a.num(2))
		return
	}
	c.errorf("Invalid queueid = %d\n", a.num(4))
}
