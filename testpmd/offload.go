package testpmd

import (
	"fmt"
	"strings"

	"vionet/port"
)

func offloadCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port config (port_id) rx_offload (rx_name) (on|off)", help: "Switch a receive offload of all queues of a stopped port.", run: (*Console).portRxOffload},
		{section: portsSection, pattern: "port config (port_id) tx_offload (tx_name) (on|off)", help: "Switch a transmit offload of all queues of a stopped port.", run: (*Console).portTxOffload},
		{section: portsSection, pattern: "port (port_id) rxq (queue_id) rx_offload (rx_name) (on|off)", help: "Switch a receive offload of one queue of a stopped port.", run: (*Console).queueRxOffload},
		{section: portsSection, pattern: "port (port_id) txq (queue_id) tx_offload (tx_name) (on|off)", help: "Switch a transmit offload of one queue of a stopped port.", run: (*Console).queueTxOffload},
		{section: displaySection, pattern: "show port (port_id) (rx_offload|tx_offload) capabilities", help: "List the offloads that the port can do.", run: (*Console).showCapabilities, json: (*Console).capabilitiesJSON},
		{section: displaySection, pattern: "show port (port_id) (rx_offload|tx_offload) configuration", help: "List the offloads of the port since its last start, and those of its queues for the next.", run: (*Console).showOffloads, json: (*Console).offloadsJSON},
	}
}

// offloadPort gives the stopped port at word i, or nil after a complaint.
func (c *Console) offloadPort(a args, i int) *portState {
	p := c.lookup(a.num(i))
	switch {
	case p == nil:
		c.errorf("Invalid port_id=%d\nError during getting device (port %d) info: No such device\n", a.num(i), a.num(i))
		return nil
	case p.started:
		c.errorf("Error: Can't config offload when Port %d is not stopped\n", p.id)
		return nil
	}
	return p
}

// queueOf gives the number at word i as one of n queues, or -1 after a
// complaint.
func (c *Console) queueOf(a args, i, n int) int {
	if q := a.num(i); q < uint64(n) {
		return int(q)
	}
	c.errorf("Error: input queue_id should be 0 ... %d\n", n-1)
	return -1
}

func (c *Console) portRxOffload(a args) {
	if p := c.offloadPort(a, 2); p != nil {
		bit, _ := port.ParseRxOffload(a[4])
		p.requestRx(bit, a.on(5))
	}
}

func (c *Console) portTxOffload(a args) {
	if p := c.offloadPort(a, 2); p != nil {
		bit, _ := port.ParseTxOffload(a[4])
		p.requestTx(bit, a.on(5))
	}
}

func (c *Console) queueRxOffload(a args) {
	if p := c.offloadPort(a, 1); p != nil {
		if q := c.queueOf(a, 3, len(p.rxQueueOffloads)); q >= 0 {
			bit, _ := port.ParseRxOffload(a[5])
			p.rxQueueOffloads[q] = with(p.rxQueueOffloads[q], bit, a.on(6))
		}
	}
}

func (c *Console) queueTxOffload(a args) {
	if p := c.offloadPort(a, 1); p != nil {
		if q := c.queueOf(a, 3, len(p.txQueueOffloads)); q >= 0 {
			bit, _ := port.ParseTxOffload(a[5])
			p.txQueueOffloads[q] = with(p.txQueueOffloads[q], bit, a.on(6))
		}
	}
}

// shownOffloads gives the port at word 2, or nil after a complaint about what
// could not be had of it.
func (c *Console) shownOffloads(a args, what string) *portState {
	p := c.lookup(a.num(2))
	if p == nil {
		c.errorf("Invalid port_id=%d\nError during getting device %s: No such device\n", a.num(2), fmt.Sprintf(what, a.num(2)))
	}
	return p
}

func (c *Console) showCapabilities(a args) {
	p := c.shownOffloads(a, "(port %d) info")
	if p == nil {
		return
	}
	dir, capa := "Rx", p.Info().RxCapa.String()
	if a[3] == "tx_offload" {
		dir, capa = "Tx", p.Info().TxCapa.String()
	}
	c.printf("%s Offloading Capabilities of port %d :\n  Per Queue :\n  Per Port  :%s\n\n", dir, p.id, spaced(capa))
}

func (c *Console) showOffloads(a args) {
	p := c.shownOffloads(a, "configuration (port %d)")
	if p == nil {
		return
	}
	if a[3] == "rx_offload" {
		c.printOffloads("Rx", p.id, p.rxActive(), texts(p.rxQueueOffloads))
	} else {
		c.printOffloads("Tx", p.id, p.applied.TxOffloads, texts(p.txQueueOffloads))
	}
}

// rxActive are the receive offloads of the last start, and what is done with
// VLAN tags now.
func (p *portState) rxActive() port.RxOffloads { return p.applied.RxOffloads&^vlanModes | p.vlan }

func (c *Console) printOffloads(dir string, id int, active fmt.Stringer, queues []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s Offloading Configuration of port %d :\n  Port :%s\n", dir, id, spaced(active.String()))
	for i, q := range queues {
		fmt.Fprintf(&b, "  Queue[%2d] :%s\n", i, spaced(q))
	}
	c.printf("%s\n", b.String())
}

func texts[S fmt.Stringer](list []S) []string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return out
}

// spaced sets a list off from what stands before it, if it is not empty.
func spaced(names string) string {
	if names == "" {
		return ""
	}
	return " " + names
}
