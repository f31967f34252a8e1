package testpmd

import (
	"math"
	"time"

	"vionet/testpmd/engine"
)

func setCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set default", help: "Reset forwarding to the default configuration: all ports, one core, the peers of the start.", run: (*Console).setDefault},
		{section: configSection, pattern: "set fwd (mode)", help: "Choose what forwarding does with packets.", run: func(c *Console, a args) { c.setMode(a[2], false) }},
		{section: configSection, pattern: "set fwd (mode) retry", help: "The same, and offer again what a port did not take.", run: func(c *Console, a args) { c.setMode(a[2], true) }},
		{section: configSection, pattern: "set burst (num)", help: "Set the number of packets in a burst.", run: (*Console).setBurst},
		{section: configSection, pattern: "set burst tx delay (microseconds) retry (num)", help: "Set how long to wait before offering packets again, and how often.", run: (*Console).setRetry},
		{section: configSection, pattern: "set verbose (level)", help: "Describe each packet: 1 those received, 2 those sent, 3 both, 0 none.", run: (*Console).setVerbose},
		{section: configSection, pattern: "set flush_rx (on|off)", help: "Choose whether start throws away what was received before.", run: func(c *Console, a args) { c.Options.FlushRx = a.on(2) }},
		{section: configSection, pattern: "set eth-peer (port_id) (peer_addr)", help: "Set the MAC address that is behind the port.", run: (*Console).setPeer},
		{section: configSection, pattern: "set stat_qmap (tx|rx) (port_id) (queue_id) (qmapping)", help: "Checked, and without effect: every queue has its own counters.", run: (*Console).setStatQMap},
	}
}

func (c *Console) setDefault(args) {
	c.printf("Reset to default forwarding configuration...\n")
	c.fwdPorts = nil
	for _, p := range c.openPorts() {
		c.fwdPorts = append(c.fwdPorts, p.id)
		p.resetPeer(c.Options)
	}
	c.nbPorts = len(c.fwdPorts)
	c.fwdCores, c.Options.NbCores = c.Cores, 1
	c.warnTopology()
}

func (c *Console) setMode(name string, retry bool) {
	c.mode, c.retry = engine.ByName(name), retry
	c.printf("Set %s packet forwarding mode%s\n", name, c.withRetry())
}

func (c *Console) setBurst(a args) {
	n := a.num(2)
	if n > engine.MaxBurst {
		c.errorf("nb pkt per burst: %d > %d (maximum packet per burst)  ignored\n", n, engine.MaxBurst)
		return
	}
	c.Options.Burst = int(n)
	c.printf("Number of packets per burst set to %d\n", n)
}

// Bounds of retries: together they keep a burst below a second.
const (
	maxDelayMicros = 1000
	maxRetries     = 1000
)

func (c *Console) setRetry(a args) {
	delay, retries := a.num(4), a.num(6)
	switch {
	case delay > maxDelayMicros:
		c.errorf("tx delay: %d > %d (maximum microseconds)  ignored\n", delay, maxDelayMicros)
	case retries > maxRetries:
		c.errorf("tx retry: %d > %d (maximum number of retries)  ignored\n", retries, maxRetries)
	default:
		c.delay, c.retries = time.Duration(delay)*time.Microsecond, int(retries)
	}
}

func (c *Console) setVerbose(a args) {
	n := a.num(2)
	if n > math.MaxUint16 {
		c.errorf("verbose level %d > %d (maximum level) - ignored\n", n, math.MaxUint16)
		return
	}
	c.printf("Change verbose level from %d to %d\n", c.watch.Level(), n)
	c.watch.SetLevel(int(n))
}

func (c *Console) setPeer(a args) {
	p := c.lookup(a.num(2))
	mac, ok := ParseMAC(a[3])
	switch {
	case p == nil:
		c.errorf("Error: Invalid port number %d\n", a.num(2))
	case !ok:
		c.errorf("Error: Invalid ethernet address: %s\n", a[3])
	default:
		p.peer = mac
	}
}

// maxStatsMap is the largest number of a queue's counters in testpmd.
const maxStatsMap = 15

func (c *Console) setStatQMap(a args) {
	p := c.portOf(a, 3)
	if p == nil || c.configuredQueue(p, a[2], a.num(4)) < 0 {
		return
	}
	if a.num(5) > maxStatsMap {
		c.errorf("map_value not in required range 0..%d\n", maxStatsMap)
	}
}
