package testpmd

import (
	"fmt"
	"slices"
	"strings"

	"vionet/port"
)

func attachCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port attach (ident)", help: "Open a device, as --vdev or -a names it, as one more port, which is stopped and takes no part in forwarding yet.", run: (*Console).attach},
		{section: portsSection, pattern: "port detach (port_id)", help: "Close a stopped port and let go of its device.", run: (*Console).detach},
		{section: devicesSection, pattern: "device detach (ident)", help: "Close the stopped port of the device with that name, and let go of it.", run: (*Console).detachDevice},
		{section: displaySection, pattern: "show device info (ident)", help: "Show the device with that name, or all.", run: (*Console).showDevices, json: (*Console).devicesJSON},
	}
}

func (c *Console) attach(a args) {
	c.printf("Attaching a new port...\n")
	p, err := c.open(a[2])
	if err != nil {
		c.errorf("%v\ntestpmd: Failed to attach port %s\n", err, a[2])
		return
	}
	id := slices.IndexFunc(c.ports, func(p *portState) bool { return p.closed })
	if id < 0 {
		id = len(c.ports)
	}
	state := c.addPort(id, p)
	if err := state.SetPromiscuous(true); err != nil {
		c.errorf("Error during enabling promiscuous mode for port %d: %s - ignore\n", id, errText(err))
	}
	c.printf("Port %d is attached. Now total ports is %d\nDone\n", id, len(c.openPorts()))
}

// open opens the device of that description.
func (c *Console) open(ident string) (port.Port, error) {
	name, _, _ := strings.Cut(ident, ",")
	switch {
	case c.Attach == nil:
		return nil, fmt.Errorf("attach %s: %w", ident, port.ErrNotSupported)
	case c.named(name) != nil:
		return nil, fmt.Errorf("attach %s: port %d is that device", ident, c.named(name).id)
	case len(c.openPorts()) >= maxListedPorts:
		return nil, fmt.Errorf("attach %s: there are %d ports already", ident, maxListedPorts)
	}
	return c.Attach(ident)
}

func (c *Console) detach(a args) {
	p := c.lookup(a.num(2))
	switch {
	case p == nil:
		c.errorf("Invalid port_id=%d\n", a.num(2))
		return
	case p.started:
		c.errorf("Port not stopped\n")
		return
	}
	c.printf("Port was not closed\nRemoving a device...\n")
	if c.remove(p) {
		c.printf("Device is detached\nNow total ports is %d\nDone\n", len(c.openPorts()))
	}
}

func (c *Console) detachDevice(a args) {
	c.printf("Removing a device...\n")
	p := c.named(a[2])
	switch {
	case p == nil:
		c.errorf("testpmd: Failed to detach device %s(%s)\n", a[2], busOf(a[2]))
		return
	case p.started:
		c.errorf("Port %d not stopped\n", p.id)
		return
	}
	if c.remove(p) {
		c.printf("Device %s is detached\nNow total ports is %d\nDone\n", a[2], len(c.openPorts()))
	}
}

// remove closes a port and lets go of its device; false says that it is still
// used by forwarding.
func (c *Console) remove(p *portState) bool {
	if c.forwards(p) {
		c.errorf("Please remove port %d from forwarding configuration.\n", p.id)
		return false
	}
	c.close(p)
	if c.Detach != nil {
		if err := c.Detach(p.Port); err != nil {
			c.errorf("%v\n", err)
		}
	}
	return true
}

// named gives the open port of the device with that name, or nil.
func (c *Console) named(device string) *portState {
	for _, p := range c.openPorts() {
		if p.Name() == device {
			return p
		}
	}
	return nil
}

// busOf is the kind of device that has such a name.
func busOf(name string) string {
	if strings.Count(name, ":") > 0 && strings.Contains(name, ".") {
		return "pci"
	}
	return "vdev"
}

// deviceText is what "show device info" shows, with one verb a value.
const deviceText = `
********************* Infos for device %s *********************
Bus name: %s
Bus information: 
Driver name: %s
Devargs: %s
Connect to socket: -1

	Port id: %-2d
	MAC address: %s
	Device name: %s
	Device speed capability: Autonegotiate (all speeds)
`

func (c *Console) showDevices(a args) {
	list := c.openPorts()
	if a[3] != "all" {
		p := c.named(a[3])
		if p == nil {
			c.errorf("cannot parse identifier\n")
			return
		}
		list = []*portState{p}
	}
	for _, p := range list {
		info := p.Info()
		c.printf(deviceText, info.Name, busOf(info.Name), info.Driver, info.Devargs, p.id, formatMAC(info.MAC), info.Name)
	}
}
