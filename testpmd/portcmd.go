package testpmd

import "slices"

func portCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port start (port_id|all)", help: "Start the port, or all of them, with the settings made so far.", run: func(c *Console, a args) { c.startPorts(c.portsOf(a, 2)) }},
		{section: portsSection, pattern: "port stop (port_id|all)", help: "Stop the port, or all of them.", run: func(c *Console, a args) { c.stopPorts(c.portsOf(a, 2), true) }},
		{section: portsSection, pattern: "port close (port_id|all)", help: "Close the port, or all of them, and give the device back.", run: func(c *Console, a args) { c.closePorts(c.portsOf(a, 2)) }},
	}
}

// startPorts starts what is stopped among list and reports whether that went
// well.
func (c *Console) startPorts(list []*portState) bool {
	if len(list) == 0 {
		return true
	}
	any := false
	for _, p := range list {
		if p.started {
			c.errorf("Port %d is now not stopped\n", p.id)
			continue
		}
		if !c.configure(p) {
			return false
		}
		if err := p.Start(); err != nil {
			c.errorf("Fail to start port %d: %v\n", p.id, err)
			return false
		}
		p.started, any = true, true
		c.printf("Port %d: %s\n", p.id, formatMAC(p.Info().MAC))
	}
	if any {
		c.printf("Checking link statuses...\n")
	} else {
		c.errorf("Please stop the ports first\n")
	}
	c.printf("Done\n")
	return true
}

// stopPorts stops what is started among list.
func (c *Console) stopPorts(list []*portState, checkLink bool) {
	if len(list) == 0 {
		return
	}
	c.printf("Stopping ports...\n")
	any := false
	for _, p := range list {
		if c.forwards(p) {
			c.errorf("Please remove port %d from forwarding configuration.\n", p.id)
			continue
		}
		if !p.started {
			continue
		}
		if err := p.Stop(); err != nil {
			c.errorf("Fail to stop port %d: %v\n", p.id, err)
		}
		p.started, any = false, true
	}
	if any && checkLink {
		c.printf("Checking link statuses...\n")
	}
	c.printf("Done\n")
}

// closePorts closes what is stopped among list.
func (c *Console) closePorts(list []*portState) {
	if len(list) == 0 {
		return
	}
	c.printf("Closing ports...\n")
	for _, p := range list {
		switch {
		case c.forwards(p):
			c.errorf("Please remove port %d from forwarding configuration.\n", p.id)
			continue
		case p.started:
			c.errorf("Cannot close started device (port %d)\n", p.id)
			continue
		}
		c.close(p)
	}
	c.printf("Done\n")
}

// close closes the port; there is no way back.
func (c *Console) close(p *portState) {
	p.Notify(nil)
	if err := p.Close(); err != nil {
		c.errorf("Fail to close port %d: %v\n", p.id, err)
	}
	p.closed, p.started = true, false
	c.fwdPorts = slices.DeleteFunc(c.fwdPorts, func(id int) bool { return id == p.id })
	c.nbPorts = min(c.nbPorts, len(c.fwdPorts))
	c.printf("Port %d is closed\n", p.id)
}
