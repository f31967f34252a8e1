package testpmd

import (
	"math"
	"slices"
	"time"

	"vionet/testpmd/engine"
)

func setCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set fwd (mode)", help: "Choose what forwarding does with packets.", run: func(c *Console, a args) { c.setMode(a[2], false) }},
		{section: configSection, pattern: "set fwd (mode) retry", help: "The same, and offer again what a port did not take.", run: func(c *Console, a args) { c.setMode(a[2], true) }},
		{section: configSection, pattern: "set burst (num)", help: "Set the number of packets in a burst.", run: (*Console).setBurst},
		{section: configSection, pattern: "set burst tx delay (microseconds) retry (num)", help: "Set how long to wait before offering packets again, and how often.", run: (*Console).setRetry},
		{section: configSection, pattern: "set txpkts (x[,y]*)", help: "Set the lengths of the segments of generated packets.", run: (*Console).setTxPkts},
		{section: configSection, pattern: "set nbcore (num)", help: "Set the number of forwarding cores.", run: (*Console).setNbCore},
		{section: configSection, pattern: "set nbport (num)", help: "Set the number of forwarding ports.", run: (*Console).setNbPort},
		{section: configSection, pattern: "set corelist (x[,y]*)", help: "Set the forwarding cores, in order of use.", run: (*Console).setCoreList},
		{section: configSection, pattern: "set portlist (x[,y]*)", help: "Set the forwarding ports, in order of use.", run: (*Console).setPortList},
		{section: configSection, pattern: "set verbose (level)", help: "Describe each packet: 1 those received, 2 those sent, 3 both, 0 none.", run: (*Console).setVerbose},
		{section: configSection, pattern: "set flush_rx (on|off)", help: "Choose whether start throws away what was received before.", run: func(c *Console, a args) { c.Options.FlushRx = a.on(2) }},
		{section: configSection, pattern: "set eth-peer (port_id) (peer_addr)", help: "Set the MAC address that is behind the port.", run: (*Console).setPeer},
		{section: configSection, pattern: "set promisc (port_id|all) (on|off)", help: "Choose whether the port receives frames for other stations.", run: (*Console).setPromiscuous},
	}
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

func (c *Console) setTxPkts(a args) {
	segs, _ := ParseList(a[2])
	if err := CheckTxSegs(segs, TxRoom(c.Pool)); err != nil {
		c.errorf("%v\n", err)
		return
	}
	c.Options.TxSegs = segs
}

func (c *Console) setNbCore(a args) {
	n := a.num(2)
	switch {
	case n > uint64(len(c.fwdCores)):
		c.errorf("nb fwd cores %d > %d (max. number of configured lcores) - ignored\n", n, len(c.fwdCores))
	case n < 1:
		c.errorf("nb fwd cores %d < 1 (some core must forward) - ignored\n", n)
	default:
		c.Options.NbCores = int(n)
		c.printf("Number of forwarding cores set to %d\n", n)
	}
}

func (c *Console) setNbPort(a args) {
	n := a.num(2)
	if n > uint64(len(c.fwdPorts)) {
		c.errorf("nb fwd ports %d > %d (number of configured ports) - ignored\n", n, len(c.fwdPorts))
		return
	}
	c.nbPorts = int(n)
	c.printf("Number of forwarding ports set to %d\n", n)
	c.warnTopology()
}

// warnTopology says, once, when a port has nobody to be paired with.
func (c *Console) warnTopology() {
	if c.Options.Topology == Paired && c.nbPorts%2 == 1 && !c.warned {
		c.warned = true
		c.errorf("\nWarning! port-topology=paired and odd forward ports number, the last port will pair with itself.\n\n")
	}
}

func (c *Console) setCoreList(a args) {
	ids, _ := ParseList(a[2])
	if !c.distinct("core", ids) {
		return
	}
	var cores []Core
	for _, id := range ids {
		if id == c.MainCore {
			c.errorf("lcore %d cannot be masked on for running packet forwarding, which is the main lcore and reserved for command line parsing only\n", id)
			return
		}
		i := slices.IndexFunc(c.Cores, func(core Core) bool { return core.ID == id })
		if i < 0 {
			c.errorf("lcore %d not enabled\n", id)
			return
		}
		cores = append(cores, c.Cores[i])
	}
	if n := c.Options.NbCores; n != len(cores) {
		c.printf("previous number of forwarding cores %d - changed to number of configured cores %d\n", n, len(cores))
	}
	c.fwdCores, c.Options.NbCores = cores, len(cores)
}

func (c *Console) setPortList(a args) {
	ids, _ := ParseList(a[2])
	if !c.distinct("port", ids) {
		return
	}
	for _, id := range ids {
		if c.lookup(uint64(id)) == nil {
			c.errorf("Invalid port %d\n", id)
			return
		}
	}
	if c.nbPorts != len(ids) {
		c.printf("previous number of forwarding ports %d - changed to number of configured ports %d\n", c.nbPorts, len(ids))
	}
	c.fwdPorts, c.nbPorts = ids, len(ids)
}

// distinct complains about a number that stands in the list twice.
func (c *Console) distinct(what string, ids []int) bool {
	for i, id := range ids {
		if j := slices.Index(ids, id); j < i {
			c.errorf("duplicated %s %d at index %d and %d\n", what, id, j, i)
			return false
		}
	}
	return true
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

func (c *Console) setPromiscuous(a args) {
	doing := "enabling"
	if !a.on(3) {
		doing = "disabling"
	}
	list := c.openPorts()
	if a[2] != "all" {
		p := c.lookup(a.num(2))
		if p == nil {
			c.errorf("Invalid port_id=%d\nError during %s promiscuous mode for port %d: No such device\n", a.num(2), doing, a.num(2))
			return
		}
		list = []*portState{p}
	}
	for _, p := range list {
		if err := p.SetPromiscuous(a.on(3)); err != nil {
			c.errorf("Error during %s promiscuous mode for port %d: %s\n", doing, p.id, errText(err))
		}
	}
}
