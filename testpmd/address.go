package testpmd

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"vionet/port"
)

func addressCommands() []*command {
	return []*command{
		{section: configSection, pattern: "mac_addr add (port_id) (mac_address)", help: "Receive frames for one more address.", run: (*Console).macAdd},
		{section: configSection, pattern: "mac_addr remove (port_id) (mac_address)", help: "Receive no more frames for an address that was added.", run: (*Console).macRemove},
		{section: configSection, pattern: "mac_addr set (port_id) (mac_address)", help: "Change the port's own address.", run: (*Console).macSet},
		{section: configSection, pattern: "mcast_addr add (port_id) (mac_address)", help: "Receive frames for a multicast group.", run: (*Console).groupAdd},
		{section: configSection, pattern: "mcast_addr remove (port_id) (mac_address)", help: "Receive no more frames for a multicast group.", run: (*Console).groupRemove},
		{section: configSection, pattern: "mcast_addr flush (port_id)", help: "Leave all multicast groups.", run: (*Console).groupFlush},
		{section: displaySection, pattern: "show port (port_id) (macs|mcast_macs)", help: "List the addresses, or multicast groups, that the port receives frames for.", run: (*Console).showAddresses, json: (*Console).addressesJSON},
	}
}

// macFilter gives the port at word 2 and its address filter.
func (c *Console) macFilter(a args) (*portState, port.MACFilter, error) {
	p := c.lookup(a.num(2))
	if p == nil {
		c.errorf("Invalid port_id=%d\n", a.num(2))
		return nil, nil, errNoPort
	}
	f, ok := p.Port.(port.MACFilter)
	if !ok {
		return nil, nil, port.ErrNotSupported
	}
	return p, f, nil
}

// macAnswer complains about err. A filter that the device lacks is one that
// the port may not use; a port without any has no such function.
func (c *Console) macAnswer(f port.MACFilter, err error) {
	switch {
	case err == nil:
		return
	case f != nil && errors.Is(err, port.ErrNotSupported):
		c.errorf("mac_addr_cmd error: (Operation not permitted)\n")
	default:
		c.errorf("mac_addr_cmd error: (%s)\n", errnoText(err))
	}
}

func (c *Console) macAdd(a args) {
	p, f, err := c.macFilter(a)
	mac := macOf(a[3])
	switch {
	case err != nil:
	case slices.Equal(mac, make(net.HardwareAddr, len(mac))):
		c.errorf("Port %d: Cannot add NULL MAC address\n", p.id)
		err = port.ErrInvalid
	case slices.ContainsFunc(f.MACs(), func(m net.HardwareAddr) bool { return slices.Equal(m, mac) }):
		return
	case len(f.MACs()) >= p.Info().MaxMACs:
		c.errorf("mac_addr_cmd error: (No space left on device)\n")
		return
	default:
		err = f.AddMAC(mac)
	}
	c.macAnswer(f, err)
}

func (c *Console) macRemove(a args) {
	p, f, err := c.macFilter(a)
	mac := macOf(a[3])
	switch {
	case err != nil:
	case slices.Equal(f.MACs()[0], mac):
		c.errorf("Port %d: Cannot remove default MAC address\n", p.id)
		c.errorf("mac_addr_cmd error: (Address already in use)\n")
		return
	default:
		err = f.RemoveMAC(mac)
	}
	c.macAnswer(f, err)
}

func (c *Console) macSet(a args) {
	_, f, err := c.macFilter(a)
	if err == nil {
		err = f.SetMAC(macOf(a[3]))
	}
	c.macAnswer(f, err)
}

func macOf(word string) net.HardwareAddr {
	mac, _ := ParseMAC(word)
	return mac[:]
}

// groupsOf gives the multicast groups of the port at word 2; p is nil after a
// complaint.
func (c *Console) groupsOf(a args) (p *portState, groups []net.HardwareAddr) {
	if p = c.portOf(a, 2); p != nil {
		groups = multicastOf(p)
	}
	return p, groups
}

// multicastOf lists the groups that a port receives for.
func multicastOf(p *portState) []net.HardwareAddr {
	if f, ok := p.Port.(port.MulticastFilter); ok {
		return f.Multicast()
	}
	return nil
}

// groupPosition is where the group of word 3 stands among groups, or -1. It
// complains, and ok is false, when that is no group.
func (c *Console) groupPosition(a args, groups []net.HardwareAddr) (i int, ok bool) {
	mac := macOf(a[3])
	if mac[0]&1 == 0 {
		c.errorf("Invalid multicast addr %s\n", formatMAC(mac))
		return 0, false
	}
	return slices.IndexFunc(groups, func(g net.HardwareAddr) bool { return slices.Equal(g, mac) }), true
}

func (c *Console) groupAdd(a args) {
	p, groups := c.groupsOf(a)
	if p == nil {
		return
	}
	switch i, ok := c.groupPosition(a, groups); {
	case !ok:
	case i >= 0:
		c.errorf("multicast address already filtered by port\n")
	default:
		c.setGroups(p, append(groups, macOf(a[3])))
	}
}

func (c *Console) groupRemove(a args) {
	p, groups := c.groupsOf(a)
	if p == nil {
		return
	}
	switch i, ok := c.groupPosition(a, groups); {
	case !ok:
	case i < 0:
		c.errorf("multicast address not filtered by port %d\n", p.id)
	default:
		c.setGroups(p, slices.Delete(groups, i, i+1))
	}
}

func (c *Console) groupFlush(a args) {
	if p, groups := c.groupsOf(a); p != nil && len(groups) > 0 {
		c.setGroups(p, nil)
	}
}

func (c *Console) setGroups(p *portState, groups []net.HardwareAddr) {
	f, ok := p.Port.(port.MulticastFilter)
	err := port.ErrNotSupported
	if ok {
		err = f.SetMulticast(groups)
	}
	if err != nil {
		c.errorf("rte_eth_dev_set_mc_addr_list(port=%d, nb=%d) failed. diag=%d\n", p.id, len(groups), -errno(err))
	}
}

func (c *Console) showAddresses(a args) {
	p := c.portOf(a, 2)
	if p == nil {
		return
	}
	what, list := "Multicast MAC", multicastOf(p)
	if a[3] == "macs" {
		what, list = "MAC", []net.HardwareAddr{p.Info().MAC}
		if f, ok := p.Port.(port.MACFilter); ok {
			list = f.MACs()
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Number of %s address added: %d\n", what, len(list))
	for _, mac := range list {
		fmt.Fprintf(&b, "  %s\n", formatMAC(mac))
	}
	c.printf("%s", b.String())
}
