package testpmd

import (
	"fmt"
	"slices"
)

func coreCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set nbport (num)", help: "Set the number of forwarding ports.", run: (*Console).setNbPort},
		{section: configSection, pattern: "set nbcore (num)", help: "Set the number of forwarding cores.", run: (*Console).setNbCore},
		{section: configSection, pattern: "set coremask (mask)", help: "Set the forwarding cores as a mask, in ascending order of use.", run: (*Console).setCoreMask},
		{section: configSection, pattern: "set portmask (mask)", help: "Set the forwarding ports as a mask, in ascending order of use.", run: (*Console).setPortMask},
		{section: configSection, pattern: "set corelist (x[,y]*)", help: "Set the forwarding cores, in order of use.", run: (*Console).setCoreList},
		{section: configSection, pattern: "set portlist (x[,y]*)", help: "Set the forwarding ports, in order of use.", run: (*Console).setPortList},
	}
}

// choose picks the ports and cores that the options name.
func (c *Console) choose() error {
	opts := &c.Options
	if len(opts.PortList) > 0 {
		c.fwdPorts, c.nbPorts = slices.Clone(opts.PortList), len(opts.PortList)
	}
	for i, id := range opts.PortList {
		if id >= len(c.ports) || slices.Index(opts.PortList, id) < i {
			return fmt.Errorf("portlist: port %d is not there, or is listed twice", id)
		}
	}
	if opts.NbPorts > 0 {
		c.nbPorts = min(opts.NbPorts, c.nbPorts)
	}
	if len(opts.CoreList) == 0 {
		return nil
	}
	c.fwdCores, opts.NbCores = nil, len(opts.CoreList)
	for i, id := range opts.CoreList {
		at := slices.IndexFunc(c.Cores, func(core Core) bool { return core.ID == id })
		if at < 0 || slices.Index(opts.CoreList, id) < i {
			return fmt.Errorf("coremask: lcore %d does not forward, or is listed twice", id)
		}
		c.fwdCores = append(c.fwdCores, c.Cores[at])
	}
	return nil
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

// Bounds of lists, testpmd's own.
const (
	maxListedCores = 128
	maxListedPorts = 32
)

func (c *Console) setCoreList(a args) {
	if ids, ok := c.list("core", a[2], maxListedCores); ok {
		c.useCores(ids)
	}
}

func (c *Console) setCoreMask(a args) {
	if a.num(2) == 0 {
		c.errorf("Invalid NULL mask of cores\n")
		return
	}
	c.useCores(maskBits(a.num(2)))
}

// useCores makes the cores of these numbers the ones that forward.
func (c *Console) useCores(ids []int) {
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
	ids, ok := c.list("port", a[2], maxListedPorts)
	if !ok {
		return
	}
	for _, id := range ids {
		if c.lookup(uint64(id)) == nil {
			c.errorf("Invalid port %d\n", id)
			return
		}
	}
	c.usePorts(ids)
}

// setPortMask leaves out ports that are not there, as scripts for machines with
// more of them need it; of those that it names one must be.
func (c *Console) setPortMask(a args) {
	named := maskBits(a.num(2))
	there := slices.DeleteFunc(slices.Clone(named), func(id int) bool { return c.lookup(uint64(id)) == nil })
	switch {
	case len(named) == 0:
		c.errorf("Invalid NULL mask of ports\n")
	case len(there) == 0:
		c.errorf("Invalid port %d\n", named[0])
	default:
		c.usePorts(there)
	}
}

// usePorts makes the ports of these numbers the ones that forward.
func (c *Console) usePorts(ids []int) {
	if !c.distinct("port", ids) {
		return
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
