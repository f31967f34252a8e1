package testpmd

import (
	"strconv"
	"strings"

	"vionet/port"
)

// maxVLAN is one more than the largest VLAN identifier.
const maxVLAN = 4096

func vlanCommands() []*command {
	return []*command{
		{section: configSection, pattern: "vlan set (strip|filter|qinq_strip|extend) (on|off) (port_id)", help: "Choose what the port does with the VLAN tags of received frames; a started port is stopped and started for what it did not do before.", run: (*Console).vlanSet},
		{section: configSection, pattern: "vlan set stripq (on|off) (port_id,queue_id)", help: "Refused: a virtio port strips tags on all queues or on none.", run: (*Console).vlanStripQueue},
		{section: configSection, pattern: "vlan set (inner|outer) tpid (tpid) (port_id)", help: "Refused: a virtio device knows the usual tags alone.", run: (*Console).vlanTPID},
		{section: configSection, pattern: "rx_vlan (add|rm) (vlan_id|all) (port_id)", help: "Let the frames of a VLAN, or of all, in while the port filters by VLAN, or keep them out.", run: (*Console).rxVLAN},
		{section: configSection, pattern: "tx_vlan set (port_id) (vlan_id)", help: "Insert this VLAN tag into packets sent through the port in modes mac, macswap and txonly.", run: (*Console).txVLANSet},
		{section: configSection, pattern: "tx_vlan set (port_id) (vlan_id) (outer_vlan_id)", help: "Refused where the port cannot insert two tags.", run: (*Console).txQinQSet},
		{section: configSection, pattern: "tx_vlan set pvid (port_id) (vlan_id) (on|off)", help: "The same as set and reset, also on a started port, which has it after its next start.", run: (*Console).txVLANPort},
		{section: configSection, pattern: "tx_vlan reset (port_id)", help: "Insert no VLAN tag.", run: (*Console).txVLANReset},
	}
}

// rxQinQStrip is an offload that no port here has.
const rxQinQStrip port.RxOffloads = 1 << 5

// vlanModes are the receive offloads that "vlan set" switches.
const vlanModes = port.RxVLANStrip | port.RxVLANFilt | port.RxVLANExt | rxQinQStrip

// vlanMode is what a word of "vlan set" switches.
type vlanMode struct {
	offload port.RxOffloads
	doing   string // for complaints
}

var vlanModeWords = map[string]vlanMode{
	"strip":      {port.RxVLANStrip, "rx_vlan_strip_set"},
	"filter":     {port.RxVLANFilt, "rx_vlan_filter_set"},
	"extend":     {port.RxVLANExt, "rx_vlan_extend_set"},
	"qinq_strip": {rxQinQStrip, "rx_vlan_qinq_strip_set"},
}

// bit writes on as testpmd's complaints do.
func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

func (c *Console) vlanSet(a args) {
	p := c.portOf(a, 4)
	if p == nil {
		return
	}
	mode, on := vlanModeWords[a[2]], a.on(3)
	if p.vlan&mode.offload != 0 == on {
		return
	}
	if capa := p.Info().RxCapa; on && capa&mode.offload == 0 {
		c.errorf("Ethdev port_id=%d requested new added VLAN offloads 0x%x must be within Rx offloads capabilities 0x%x in rte_eth_dev_set_vlan_offload()\n", p.id, uint64(mode.offload), uint64(capa))
		c.errorf("%s(port_pi=%d, on=%d) failed diag=-22\n", mode.doing, p.id, bit(on))
		return
	}
	before := p.rxOffloads
	p.rxOffloads = with(p.rxOffloads, mode.offload, on)
	if err := c.switchVLAN(p); err != nil {
		p.rxOffloads = before
		c.errorf("%v\n%s(port_pi=%d, on=%d) failed diag=%d\n", err, mode.doing, p.id, bit(on), -errno(err))
		return
	}
	p.vlan = with(p.vlan, mode.offload, on)
}

// switchVLAN makes a started port do with VLAN tags what is wanted of it: while
// packets move if its last start enabled that, or else by a restart.
func (c *Console) switchVLAN(p *portState) error {
	if !p.started {
		return nil
	}
	active := p.applied.RxOffloads&^vlanModes | p.rxOffloads&vlanModes
	if s, ok := p.Port.(port.RxOffloadSetter); ok && active&^p.applied.RxOffloads == 0 {
		if err := s.SetRxOffloads(active); err == nil {
			return nil
		}
	}
	if c.forwards(p) {
		return errForwards
	}
	return c.reapply(p, func(cfg *port.Config) { cfg.RxOffloads = active })
}

func (c *Console) vlanStripQueue(a args) {
	id, queue, ok := strings.Cut(a[4], ",")
	n, err := strconv.ParseUint(id, 0, 16)
	q, err2 := strconv.ParseUint(queue, 0, 16)
	switch {
	case !ok || err != nil || err2 != nil:
		c.errorf("must specify (port,queue_id)\n")
		return
	case c.lookup(n) == nil:
		c.errorf("Invalid port %d\n", n)
		return
	}
	diag := -95
	if q >= uint64(len(c.ports[n].rxQueues)) {
		diag = -22
		c.errorf("Invalid rx_queue_id=%d\n", q)
	}
	c.errorf("rx_vlan_strip_set_on_queue(port_pi=%d, queue_id=%d, on=%d) failed diag=%d\n", n, q, bit(a.on(3)), diag)
}

func (c *Console) vlanTPID(a args) {
	kind := map[string]int{"inner": 1, "outer": 2}[a[2]]
	if p := c.portOf(a, 5); p != nil {
		c.errorf("tx_vlan_tpid_set(port_pi=%d, vlan_type=%d, tpid=%d) failed diag=-95\n", p.id, kind, a.num(4))
	}
}

func (c *Console) rxVLAN(a args) {
	first, last := uint64(0), uint64(maxVLAN-1)
	if a[2] != "all" {
		if !c.vlanID(a, 2) {
			return
		}
		first = a.num(2)
		last = first
	}
	p := c.portOf(a, 3)
	if p == nil {
		return
	}
	on := a[1] == "add"
	fail := func(id uint64, diag int) {
		c.errorf("rte_eth_dev_vlan_filter(port_pi=%d, vlan_id=%d, on=%d) failed diag=%d\n", p.id, id, bit(on), diag)
	}
	if p.vlan&port.RxVLANFilt == 0 {
		c.errorf("Port %d: VLAN-filtering disabled\n", p.id)
		fail(first, -38)
		return
	}
	f, ok := p.Port.(port.VLANFilter)
	if !ok {
		fail(first, -95)
		return
	}
	for id := first; id <= last; id++ {
		if err := f.SetVLANFilter(uint16(id), on); err != nil {
			fail(id, -errno(err))
			return
		}
	}
}

// vlanID complains when word i is no VLAN identifier.
func (c *Console) vlanID(a args, i int) bool {
	if a.num(i) >= maxVLAN {
		c.errorf("Invalid vlan_id %d (must be < %d)\n", a.num(i), maxVLAN)
		return false
	}
	return true
}

func (c *Console) txVLANSet(a args) {
	p := c.stoppedPort(a, 2)
	switch {
	case p == nil || !c.vlanID(a, 3):
	case p.Info().TxCapa&port.TxVLANInsert == 0:
		c.errorf("Error: vlan insert is not supported by port %d\n", p.id)
	default:
		p.insertVLAN(uint16(a.num(3)), true)
	}
}

func (c *Console) txQinQSet(a args) {
	p := c.stoppedPort(a, 2)
	if p != nil && c.vlanID(a, 3) && c.vlanID(a, 4) {
		c.errorf("Error: qinq insert not supported by port %d\n", p.id)
	}
}

func (c *Console) txVLANReset(a args) {
	if p := c.stoppedPort(a, 2); p != nil {
		p.insertVLAN(0, false)
	}
}

func (c *Console) txVLANPort(a args) {
	p := c.portOf(a, 3)
	if p == nil || !c.vlanID(a, 4) {
		return
	}
	p.insertVLAN(uint16(a.num(4)), a.on(5))
}

// insertVLAN makes the port insert a tag into what it sends, or none, from its
// next start on.
func (p *portState) insertVLAN(id uint16, on bool) {
	p.txVLAN = id
	p.requestTx(port.TxVLANInsert, on)
}
