package testpmd

import (
	"fmt"
	"math"
	"strings"

	"vionet/port"
	"vionet/testpmd/engine"
)

func portConfigCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port config all (rxq|txq|rxd|txd) (value)", help: "Set the number of queues, or of descriptors of each queue, of all ports.", run: (*Console).portConfigQueues},
		{section: portsSection, pattern: "port config all burst (value)", help: "Set the number of packets in a burst.", run: (*Console).portConfigBurst},
		{section: portsSection, pattern: "port config mtu (port_id) (value)", help: "Set the MTU of a port; a started one is stopped and started for it, or has it after its next start if it forwards.", run: (*Console).portConfigMTU},
		{section: portsSection, pattern: "port config all max-pkt-len (value)", help: "Set the MTU of all ports by the length of the longest frame.", run: (*Console).portConfigMaxLen},
		{section: portsSection, pattern: "port config all max-lro-pkt-size (value)", help: "Checked, and without effect: LRO packets are as long as the device makes them.", run: (*Console).portConfigMaxLRO},
		{section: portsSection, pattern: "port config (port_id|all) speed (" + strings.Join(speeds, "|") + ") duplex (half|full|auto)", help: "Checked, and without effect: the link of a virtio device is what its host says.", run: (*Console).portConfigSpeed},
	}
}

// speeds are the words for link speeds, in Mb/s.
var speeds = []string{"10", "100", "1000", "10000", "25000", "40000", "50000", "100000", "200000", "auto"}

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
	case n == 0:
		c.errorf("PMD does not recommend a burst size.\nUser provided value must be between 1 and %d\n", engine.MaxBurst)
	case n > engine.MaxBurst:
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
	n := a.num(4)
	if complaint := checkMTU(p, n); complaint != "" {
		c.errorf("%s\n", complaint)
		return
	}
	if p.started && !c.forwards(p) {
		if err := c.reapply(p, func(cfg *port.Config) { cfg.MTU = int(n) }); err != nil {
			c.errorf("%v\nSet MTU failed. diag=%d\n", err, -errno(err))
			return
		}
	}
	p.mtu = int(n)
}

// checkMTU gives a complaint, or "", about n as the MTU of the port.
func checkMTU(p *portState, n uint64) string {
	switch info := p.Info(); {
	case n > uint64(info.MaxMTU):
		return fmt.Sprintf("MTU (%d) > device max MTU (%d) for port_id %d", n, info.MaxMTU, p.id)
	case n < uint64(info.MinMTU):
		return fmt.Sprintf("MTU (%d) < device min MTU (%d) for port_id %d", n, info.MinMTU, p.id)
	}
	return ""
}

// minPktLen is the length of the shortest Ethernet frame.
const minPktLen = 64

func (c *Console) portConfigMaxLen(a args) {
	n := a.num(4)
	switch {
	case c.anyStarted():
		c.errorf("Please stop all ports first\n")
		return
	case n < minPktLen:
		c.errorf("max-pkt-len can not be less than %d\n", minPktLen)
		return
	}
	for _, p := range c.openPorts() {
		info := p.Info()
		if n > uint64(info.MaxRxPktLen) {
			c.errorf("max-pkt-len %d > max_rx_pktlen (%d) of port %d\n", n, info.MaxRxPktLen, p.id)
			return
		}
		if complaint := checkMTU(p, n-min(n, frameOverhead(info))); complaint != "" {
			c.errorf("%s\n", complaint)
			return
		}
	}
	for _, p := range c.openPorts() {
		p.mtu = int(n - frameOverhead(p.Info()))
	}
}

// frameOverhead is what the port adds to an MTU to get the length of a frame.
func frameOverhead(info port.Info) uint64 { return uint64(info.MaxRxPktLen - info.MaxMTU) }

func (c *Console) portConfigMaxLRO(a args) {
	switch n := a.num(4); {
	case c.anyStarted():
		c.errorf("Please stop all ports first\n")
	case n > math.MaxUint32:
		c.errorf("max-lro-pkt-size %d invalid - must be >= 0 && <= %d\n", n, uint32(math.MaxUint32))
	}
}

func (c *Console) portConfigSpeed(a args) {
	switch {
	case a[2] == "all" && c.anyStarted():
		c.errorf("Please stop all ports first\n")
		return
	case a[2] != "all" && c.stoppedPort(a, 2) == nil:
		return
	}
	if a[6] == "half" && a[4] != "10" && a[4] != "100" {
		c.errorf("Invalid speed/duplex parameters\n")
	}
}
