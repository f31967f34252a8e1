package testpmd

import "vionet/port"

// maxVLAN is one more than the largest VLAN identifier.
const maxVLAN = 4096

func vlanCommands() []*command {
	return []*command{
		{section: configSection, pattern: "tx_vlan set (port_id) (vlan_id)", help: "Insert this VLAN tag into packets sent through the port in modes mac, macswap and txonly.", run: (*Console).txVLANSet},
		{section: configSection, pattern: "tx_vlan reset (port_id)", help: "Insert no VLAN tag.", run: (*Console).txVLANReset},
	}
}

func (c *Console) txVLANSet(a args) {
	id := a.num(3)
	if id >= maxVLAN {
		c.errorf("Invalid vlan_id %d (must be < %d)\n", id, maxVLAN)
		return
	}
	if p := c.stoppedPort(a, 2); p != nil {
		p.vlan = uint16(id)
		p.requestTx(port.TxVLANInsert, true)
	}
}

func (c *Console) txVLANReset(a args) {
	if p := c.stoppedPort(a, 2); p != nil {
		p.vlan = 0
		p.requestTx(port.TxVLANInsert, false)
	}
}
