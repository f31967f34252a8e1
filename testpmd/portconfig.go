package testpmd

import (
	"fmt"

	"vionet/port"
	"vionet/testpmd/engine"
)

func portConfigCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port config all (rxq|txq|rxd|txd) (value)", help: "Set the number of queues, or of descriptors of each queue, of all ports.", run: (*Console).portConfigQueues},
		{section: portsSection, pattern: "port config all burst (value)", help: "Set the number of packets in a burst.", run: (*Console).portConfigBurst},
		{section: portsSection, pattern: "port config mtu (port_id) (value)", help: "Set the MTU of a port; it takes effect when the port is started.", run: (*Console).portConfigMTU},
	}
}

// portConfigQueues checks the number against every port before it keeps it.
func (c *Console) portConfigQueues(a args) {
	if c.anyStarted() {
		c.errorf("Please stop all ports first\n")
		return
	}
	name, n := a[3], a.num(4)
	for _, p := range c.openPorts() {
		if complaint := CheckLimit(name, n, p.id, p.Info()); complaint != "" {
			c.errorf("%s\n", complaint)
			return
		}
	}
	opts := &c.Options
	*map[string]*int{"rxq": &opts.RxQueues, "txq": &opts.TxQueues, "rxd": &opts.RxDesc, "txd": &opts.TxDesc}[name] = int(n)
}

// CheckLimit gives a complaint, or "", about n as the number of queues (name
// "rxq" or "txq") or descriptors ("rxd" or "txd") of the port.
func CheckLimit(name string, n uint64, id int, info port.Info) string {
	low, high := 1, 0
	lowName, highName := "min_"+name+"s", "max_"+name+"s"
	switch name {
	case "rxq":
		high, lowName, highName = info.MaxRxQueues, "min_rx_queues", "max_rx_queues"
	case "txq":
		high, lowName, highName = info.MaxTxQueues, "min_tx_queues", "max_tx_queues"
	default:
		low, high = info.MinDesc, info.MaxDesc
	}
	if n > uint64(high) {
		return fmt.Sprintf("Fail: input %s (%d) can't be greater than %s (%d) of port %d", name, n, highName, high, id)
	}
	if n < uint64(low) {
		return fmt.Sprintf("Fail: input %s (%d) can't be less than %s (%d) of port %d", name, n, lowName, low, id)
	}
	return ""
}

func (c *Console) anyStarted() bool {
	for _, p := range c.ports {
		if p.started {
			return true
		}
	}
	return false
}

func (c *Console) portConfigBurst(a args) {
	n := a.num(4)
	switch {
	case c.anyStarted():
		c.errorf("Please stop all ports first\n")
	case n < 1 || n > engine.MaxBurst:
		c.errorf("burst must be >= 1 && <= %d\n", engine.MaxBurst)
	default:
		c.Options.Burst = int(n)
	}
}

func (c *Console) portConfigMTU(a args) {
	p := c.portOf(a, 3)
	if p == nil {
		return
	}
	n, info := a.num(4), p.Info()
	switch {
	case n > uint64(info.MaxMTU):
		c.errorf("MTU (%d) > device max MTU (%d) for port_id %d\n", n, info.MaxMTU, p.id)
	case n < uint64(info.MinMTU):
		c.errorf("MTU (%d) < device min MTU (%d) for port_id %d\n", n, info.MinMTU, p.id)
	default:
		p.mtu = int(n)
	}
}
