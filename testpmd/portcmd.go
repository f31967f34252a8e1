package testpmd

import (
	"slices"

	"vionet/port"
)

func portCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port start (port_id|all)", help: "Start the port, or all of them, with the settings made so far.", run: onPorts(func(c *Console, list []*portState) { c.startPorts(list) })},
		{section: portsSection, pattern: "port stop (port_id|all)", help: "Stop the port, or all of them.", run: onPorts(func(c *Console, list []*portState) { c.stopPorts(list, true) })},
		{section: portsSection, pattern: "port close (port_id|all)", help: "Close the port, or all of them, and give the device back.", run: onPorts((*Console).closePorts)},
		{section: portsSection, pattern: "port reset (port_id|all)", help: "Reset the device of the stopped port, or of all of them, and see that it comes up again.", run: onPorts((*Console).resetPorts)},
	}
}

// onPorts makes a command of what is done with the ports at word 2.
func onPorts(do func(*Console, []*portState)) func(*Console, args) {
	return func(c *Console, a args) {
		if list, ok := c.portsOf(a, 2); ok {
			do(c, list)
		}
	}
}

// deferQueues stops the queues that a start of their port leaves alone.
func deferQueues(queues []queueState) {
	for i := range queues {
		queues[i].stopped = queues[i].deferred
	}
}

// startPorts starts what is stopped among list and reports whether that went
// well.
func (c *Console) startPorts(list []*portState) bool {
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
		deferQueues(p.rxQueues)
		deferQueues(p.txQueues)
		c.printf("Port %d: %s\n", p.id, formatMAC(p.Info().MAC))
	}
	switch {
	case len(list) == 0:
	case !any:
		c.errorf("Please stop the ports first\n")
	case !c.Options.SkipLinkCheck:
		c.printf("Checking link statuses...\n")
	}
	c.printf("Done\n")
	return true
}

// stopPorts stops what is started among list.
func (c *Console) stopPorts(list []*portState, checkLink bool) {
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
	if any && checkLink && !c.Options.SkipLinkCheck {
		c.printf("Checking link statuses...\n")
	}
	c.printf("Done\n")
}

// closePorts closes what is stopped among list.
func (c *Console) closePorts(list []*portState) {
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
	if c.Closed != nil {
		c.Closed(p.id)
	}
	if err := p.Close(); err != nil {
		c.errorf("Fail to close port %d: %v\n", p.id, err)
	}
	p.closed, p.started = true, false
	c.fwdPorts = slices.DeleteFunc(c.fwdPorts, func(id int) bool { return id == p.id })
	c.nbPorts = min(c.nbPorts, len(c.fwdPorts))
	c.printf("Port %d is closed\n", p.id)
}

// resetPorts resets the devices of stopped ports. They stay stopped, with what
// was set; a device that does not come up again is named.
func (c *Console) resetPorts(list []*portState) {
	for _, p := range list {
		if p.started {
			c.errorf("Can not reset port(s), please stop port(s) first.\n")
			return
		}
	}
	c.printf("Resetting ports...\n")
	for _, p := range list {
		if err := p.reset(); err != nil {
			c.errorf("Failed to reset port %d. diag=%d: %v\n", p.id, -errno(err), err)
		}
	}
	c.printf("Done\n")
}

// reset starts the stopped port, which resets its device, and stops it again.
// One that was never configured has nothing to reset.
func (p *portState) reset() error {
	if p.applied.Pool == nil {
		return nil
	}
	start := p.Start
	if r, ok := p.Port.(port.Restarter); ok {
		start = r.Restart
	}
	if err := start(); err != nil {
		return err
	}
	return p.Stop()
}
