package testpmd

func flowCommands() []*command {
	return []*command{
		{section: filtersSection, pattern: "flow (validate|create|isolate) (port_id) (rule...)", help: "Refused: a virtio device sorts packets by RSS and its filters of addresses and VLANs alone.", run: (*Console).flowRefuse},
		{section: filtersSection, pattern: "flow list (port_id)", help: "List the flow rules of the port, of which there are none.", run: func(c *Console, a args) { c.portOf(a, 2) }},
		{section: filtersSection, pattern: "flow flush (port_id)", help: "Remove the flow rules of the port, of which there are none.", run: func(c *Console, a args) { c.portOf(a, 2) }},
		{pattern: "flow destroy (port_id) rule (rule...)", run: func(c *Console, a args) { c.portOf(a, 2) }},
		{pattern: "flow query (port_id) (num) (rule...)", run: (*Console).flowQuery},
	}
}

func (c *Console) flowRefuse(a args) {
	why := "Function not implemented"
	if c.lookup(a.num(2)) == nil {
		why = "No such device"
	}
	c.errorf("port_flow_complain(): Caught PMD error type 1 (cause unspecified): %s: %s\n", why, why)
}

func (c *Console) flowQuery(a args) {
	if c.portOf(a, 2) != nil {
		c.errorf("Flow rule #%d not found\n", a.num(3))
	}
}
