package testpmd

import (
	"strconv"
	"strings"
)

// refusedCommands are those of testpmd for functions that no port here has, with
// its answer to a port that lacks them, and the usual one to a port that is not
// there.
func refusedCommands() []*command {
	const noRegisters = "Registers of port %d cannot be reached: the driver alone uses them\n"
	const noTunnelPort = "udp tunneling add error: (Operation not supported)\n"
	const noEEPROM = "operation not supported by device\n"
	const noFEC = "Function not implemented\n"
	const noFlow = "Failed to get current flow ctrl information: err = -95\n"
	const noFlowSetting = "cannot get current flow ctrl parameters, return code = -95\n"
	refused := func(pattern string, portWord int, answer string) *command {
		return &command{pattern: pattern, run: func(c *Console, a args) { c.refuse(a, portWord, answer) }}
	}
	return []*command{
		{section: displaySection, pattern: "read reg (port_id) (register)", help: "Refused, as are read regbit, read regfield, read rxd, read txd, write reg, write regbit and write regfield.", run: func(c *Console, a args) { c.refuse(a, 2, noRegisters) }},
		refused("read regbit (port_id) (register) (num)", 2, noRegisters),
		refused("read regfield (port_id) (register) (num) (num)", 2, noRegisters),
		refused("read (rxd|txd) (port_id) (queue_id) (desc_id)", 2, noRegisters),
		refused("write reg (port_id) (register) (value)", 2, noRegisters),
		refused("write regbit (port_id) (register) (num) (value)", 2, noRegisters),
		refused("write regfield (port_id) (register) (num) (num) (value)", 2, noRegisters),
		refused("rx_vxlan_port (add|rm) (num) (port_id)", 3, noTunnelPort),
		refused("port config (port_id) udp_tunnel_port (add|rm) (vxlan|geneve|ecpri) (num)", 2, "udp tunneling port add error: (Operation not supported)\n"),
		refused("show port (port_id) (eeprom|module_eeprom)", 2, noEEPROM),
		refused("show port (port_id) fec_mode", 2, noFEC),
		refused("show port (port_id) fec capabilities", 2, noFEC),
		refused("set port (port_id) fec_mode (auto|off|rs|baser)", 2, noFEC),
		refused("show port (port_id) flow_ctrl", 2, noFlow),
		refused("set flow_ctrl (rx|tx|mac_ctrl_frame_fwd|autoneg) (on|off) (port_id)", 4, noFlowSetting),
		refused("set flow_ctrl (high_water|low_water|pause_time|send_xon) (value) (port_id)", 4, noFlowSetting),
		refused("set flow_ctrl rx (on|off) tx (on|off) (num) (num) (num) (num) mac_ctrl_frame_fwd (on|off) autoneg (on|off) (port_id)", 14, "bad flow control parameter, return code = -95\n"),
		refused("set port (port_id) queue (queue_id) rate (value)", 2, "queue_rate_limit_cmd error: (Operation not supported)\n"),
		refused("set port (port_id) rxq (queue_id) avail_thresh (value)", 2, "rxq_avail_thresh_cmd error: (Operation not supported)\n"),
		refused("set port (port_id) uta (ident) (on|off)", 2, "bad unicast hash table parameter, return code = -95\n"),
		refused("set port (port_id) ptype_mask (mask)", 2, "Port %d doesn't support any ptypes.\n"),
		refused("set port (port_id) (gro|gso) (on|off)", 2, "Port %d does no GRO or GSO in software: see lro and tso of its device\n"),
		refused("show port fdir (port_id)", 3, "\n FDIR is not supported on port %d \n"),
		refused("show port dcb_tc (port_id)", 3, "\n Failed to get dcb infos on port %d \n"),
		refused("set tx loopback (port_id) (on|off)", 3, "function not implemented\n"),
		refused("set all queues drop (port_id) (on|off)", 4, "function not implemented\n"),
		{section: displaySection, pattern: "show port (port_id) ptypes", help: "Show that the port leaves the kinds of packets to the program.", run: (*Console).showPtypes, json: (*Console).ptypesJSON},
	}
}

// refuse answers a command for the port at word i, whose number a verb in
// answer stands for.
func (c *Console) refuse(a args, i int, answer string) {
	if p := c.portOf(a, i); p != nil {
		c.errorf("%s", strings.ReplaceAll(answer, "%d", strconv.Itoa(p.id)))
	}
}

func (c *Console) showPtypes(a args) {
	if c.portOf(a, 2) == nil {
		return
	}
	for _, layer := range []string{"L2", "L3", "L4", "Tunnel", "Inner L2", "Inner L3", "Inner L4"} {
		c.printf("%s ptypes unsupported\n", layer)
	}
}
