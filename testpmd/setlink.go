package testpmd

import "vionet/port"

func linkCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set promisc (port_id|all) (on|off)", help: "Choose whether the port receives frames for other stations.", run: (*Console).setPromiscuous},
		{section: configSection, pattern: "set allmulti (port_id|all) (on|off)", help: "Choose whether the port receives all multicast frames.", run: (*Console).setAllMulticast},
		{section: configSection, pattern: "set (link-up|link-down) port (port_id)", help: "Refused: a virtio device follows the link of its host.", run: (*Console).setLink},
		{section: configSection, pattern: "set link_check (on|off)", help: "Choose whether starting and stopping ports tells about their links.", run: func(c *Console, a args) { c.Options.SkipLinkCheck = !a.on(2) }},
	}
}

func (c *Console) setPromiscuous(a args) {
	c.switchMode(a, "promiscuous", func(p *portState) error { return p.SetPromiscuous(a.on(3)) })
}

func (c *Console) setAllMulticast(a args) {
	c.switchMode(a, "all-multicast", func(p *portState) error {
		m, ok := p.Port.(port.AllMulticaster)
		if !ok {
			return port.ErrNotSupported
		}
		return m.SetAllMulticast(a.on(3))
	})
}

// switchMode switches a receive mode of the ports at word 2 to what word 3
// says.
func (c *Console) switchMode(a args, mode string, set func(*portState) error) {
	doing := "enabling"
	if !a.on(3) {
		doing = "disabling"
	}
	list := c.openPorts()
	if a[2] != "all" {
		p := c.lookup(a.num(2))
		if p == nil {
			c.errorf("Invalid port_id=%d\nError during %s %s mode for port %d: No such device\n", a.num(2), doing, mode, a.num(2))
			return
		}
		list = []*portState{p}
	}
	for _, p := range list {
		if err := set(p); err != nil {
			c.errorf("Error during %s %s mode for port %d: %s\n", doing, mode, p.id, errText(err))
		}
	}
}

func (c *Console) setLink(a args) {
	if c.lookup(a.num(3)) == nil {
		c.errorf("Invalid port_id=%d\n", a.num(3))
	}
	if a[1] == "link-up" {
		c.errorf("\nSet link up fail.\n")
	} else {
		c.errorf("\nSet link down fail.\n")
	}
}
