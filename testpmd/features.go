package testpmd

import (
	"strings"

	"vionet/port"
)

func featureCommands() []*command {
	return []*command{
		{section: displaySection, pattern: "show port (port_id) features", help: "List the device's features that it offers, that the port asks for, and that they agreed on.", run: (*Console).showFeatures, json: (*Console).featuresJSON},
	}
}

func (c *Console) showFeatures(a args) {
	p := c.shownPort(a, 2)
	if p == nil {
		return
	}
	lister, ok := p.Port.(port.FeatureLister)
	if !ok {
		c.errorf("Port %d has no features of virtio\n", p.id)
		return
	}
	offered, asked, negotiated := lister.Features()
	c.printf("Features of port %d :\n  Offered    :%s\n  Asked for  :%s\n  Negotiated :%s\n", p.id,
		spaced(strings.Join(offered, " ")), spaced(strings.Join(asked, " ")), spaced(strings.Join(negotiated, " ")))
}
