package testpmd

import "vionet/port"

// maxSegSize is the largest TCP segment that can be asked for, in bytes of
// payload.
const maxSegSize = 65535

func tsoCommands() []*command {
	return []*command{
		{section: configSection, pattern: "tso set (segsize) (port_id)", help: "Make mode csum ask for TCP segments with that many bytes of payload; 0 switches it off.", run: (*Console).tsoSet},
		{section: configSection, pattern: "tso show (port_id)", help: "Show the size of TCP segments.", run: (*Console).tsoShow},
		{section: configSection, pattern: "tunnel_tso set (segsize) (port_id)", help: "Refused: no port here cuts the packets inside of a tunnel.", run: (*Console).tunnelTSOSet},
		{section: configSection, pattern: "tunnel_tso show (port_id)", help: "Refused in the same way.", run: (*Console).tunnelTSOShow},
	}
}

func (c *Console) tsoSet(a args) {
	p, size := c.stoppedPort(a, 3), a.num(2)
	switch {
	case p == nil:
		return
	case size > maxSegSize:
		c.errorf("tso segsize: %d > %d (largest segment) - ignored\n", size, maxSegSize)
		return
	case size > 0 && p.Info().TxCapa&port.TxTCPTSO == 0:
		c.errorf("Error: TSO is not supported by port %d\n", p.id)
		return
	}
	p.tsoSize = int(size)
	p.requestTx(port.TxTCPTSO, size > 0)
	c.printTSO(p)
}

func (c *Console) tsoShow(a args) {
	if p := c.stoppedPort(a, 2); p != nil {
		c.printTSO(p)
	}
}

func (c *Console) printTSO(p *portState) {
	if p.tsoSize == 0 {
		c.printf("TSO for non-tunneled packets is disabled\n")
		return
	}
	c.printf("TSO segment size for non-tunneled packets is %d\n", p.tsoSize)
}

func (c *Console) tunnelTSOSet(a args) {
	p := c.stoppedPort(a, 3)
	switch {
	case p == nil:
	case a.num(2) == 0:
		c.printf("TSO for tunneled packets is disabled\n")
	default:
		c.refuseTunnelTSO(p)
	}
}

func (c *Console) tunnelTSOShow(a args) {
	if p := c.stoppedPort(a, 2); p != nil {
		c.refuseTunnelTSO(p)
	}
}

func (c *Console) refuseTunnelTSO(p *portState) {
	c.errorf("Error: port=%d don't support tunnel TSO offloads.\n", p.id)
}
