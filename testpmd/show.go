package testpmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"vionet/port"
)

func showPortCommands() []*command {
	return []*command{
		{section: displaySection, pattern: "show port (info|stats|summary|xstats) (port_id|all)", help: "Show what the port is, or its counters.", run: (*Console).showPort, json: (*Console).portJSON},
		{section: displaySection, pattern: "show port (port_id) path", help: "Show which burst functions the last start of the port chose, why, and what would have to change for simpler ones.", run: (*Console).showPath, json: (*Console).pathJSON},
		{section: displaySection, pattern: "clear port (info|stats|xstats|fdir) (port_id|all)", help: "Set the counters of the port to zero.", run: (*Console).clearPort},
	}
}

// shownPort is portOf for commands that only show: the complaint lists the
// ports that there are.
func (c *Console) shownPort(a args, i int) *portState {
	p := c.portOf(a, i)
	if p == nil {
		c.errorf("The valid ports array is [%s ]\n", c.portNumbers())
	}
	return p
}

func (c *Console) portNumbers() string {
	var b strings.Builder
	for _, p := range c.openPorts() {
		fmt.Fprintf(&b, " %d", p.id)
	}
	return b.String()
}

func (c *Console) showPort(a args) {
	if a[2] == "summary" {
		c.printf("Number of available ports: %d\n%-4s %-17s %-12s %-14s %-8s %s\n", len(c.openPorts()), "Port", "MAC Address", "Name", "Driver", "Status", "Link")
	}
	list := c.openPorts()
	if a[3] != "all" {
		p := c.shownPort(a, 3)
		if p == nil {
			return
		}
		list = []*portState{p}
	}
	show := map[string]func(*portState){"info": c.showInfo, "stats": c.showStats, "summary": c.showSummary, "xstats": c.showXstats}[a[2]]
	for _, p := range list {
		show(p)
	}
}

func (c *Console) showSummary(p *portState) {
	info, link := p.Info(), p.Link()
	c.printf("%-4d %s %-12s %-14s %-8s %s\n", p.id, formatMAC(info.MAC), info.Name, info.Driver, upDown(link), speedText(link.Speed))
}

// infoText is the block of "show port info" with one verb a value.
const infoText = `
********************* Infos for port %-2d *********************
MAC address: %s
Device name: %s
Driver name: %s
Firmware-version: not available
Devargs: %s
Connect to socket: 0
memory allocation on the socket: 0
Link status: %s
Link speed: %s
Link duplex: %s
Autoneg status: On
MTU: %d
Promiscuous mode: %s
Allmulticast mode: %s
Maximum number of MAC addresses: %d
Maximum number of MAC addresses of hash filtering: 0
VLAN offload: 
  strip %s, filter %s, extend %s, qinq strip %s
%sMinimum size of RX buffer: %d
Maximum configurable length of RX packet: %d
Maximum configurable size of LRO aggregated packet: 0
Current number of RX queues: %d
Max possible RX queues: %d
Max possible number of RXDs per queue: %d
Min possible number of RXDs per queue: %d
RXDs number alignment: 1
Current number of TX queues: %d
Max possible TX queues: %d
Max possible number of TXDs per queue: %d
Min possible number of TXDs per queue: %d
TXDs number alignment: 1
Max segment number per packet: 65535
Max segment number per MTU/TSO: 65535
Device capabilities: 0x0( )
Device error handling mode: none
`

func (c *Console) showInfo(p *portState) {
	info, link := p.Info(), p.Link()
	mtu := info.MTU
	if !p.started && p.mtu != 0 {
		mtu = p.mtu
	}
	duplex := "half-duplex"
	if link.FullDuplex {
		duplex = "full-duplex"
	}
	allMulticast := false
	if m, ok := p.Port.(port.AllMulticaster); ok {
		allMulticast = m.AllMulticast()
	}
	c.printf(infoText, p.id, formatMAC(info.MAC), info.Name, info.Driver, info.Devargs,
		upDown(link), speedText(link.Speed), duplex, mtu, enabled(info.Promiscuous), enabled(allMulticast), info.MaxMACs,
		onOff(p.vlan&port.RxVLANStrip != 0), onOff(p.vlan&port.RxVLANFilt != 0), onOff(p.vlan&port.RxVLANExt != 0), onOff(p.vlan&rxQinQStrip != 0),
		p.rssInfo(), info.MinRxBufSize, info.MaxRxPktLen,
		info.RxQueues, info.MaxRxQueues, info.MaxDesc, info.MinDesc,
		info.TxQueues, info.MaxTxQueues, info.MaxDesc, info.MinDesc)
}

// rssInfo is what "show port info" says of RSS.
func (p *portState) rssInfo() string {
	s, limits := p.rss()
	if s == nil {
		return "No RSS offload flow type is supported.\n"
	}
	return fmt.Sprintf("Hash key size in bytes: %d\nRedirection table size: %d\nSupported RSS offload flow types:\n%s",
		limits.MaxKey, p.rssTable(), rssTypesText(limits.Types))
}

func enabled(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

// statsText is the block of "show port stats".
const statsText = `
  ######################## NIC statistics for port %-2d ########################
  RX-packets: %-10d RX-missed: %-10d RX-bytes:  %d
  RX-errors: %d
  RX-nombuf:  %-10d
  TX-packets: %-10d TX-errors: %-10d TX-bytes:  %d

  Throughput (since last show)
  Rx-pps: %12d          Rx-bps: %12d
  Tx-pps: %12d          Tx-bps: %12d
%s  ############################################################################
`

func (c *Console) showStats(p *portState) {
	last := p.shown
	s := p.takeStats()
	c.printf(statsText, p.id, s.RxPackets, s.RxMissed, s.RxBytes, s.RxErrors, s.RxNoBuf, s.TxPackets, s.TxErrors, s.TxBytes,
		s.RxPPS, s.RxBPS, s.TxPPS, s.TxBPS, c.xstatsTable(p.shown, last))
}

// takeStats reads the counters, and the rates since it did so last.
func (p *portState) takeStats() statsJSON {
	now, s := time.Now(), p.Stats()
	rate := func(count, before uint64) uint64 { return p.shown.rate(count, before, now) }
	last := p.shown.stats
	v := statsJSON{
		PortID:    p.id,
		RxPackets: s.RxPackets, RxMissed: s.RxMissed, RxBytes: s.RxBytes, RxErrors: s.RxErrors, RxNoBuf: s.RxNoBuf,
		TxPackets: s.TxPackets, TxErrors: s.TxErrors, TxBytes: s.TxBytes,
		RxPPS: rate(s.RxPackets, last.RxPackets), RxBPS: 8 * rate(s.RxBytes, last.RxBytes),
		TxPPS: rate(s.TxPackets, last.TxPackets), TxBPS: 8 * rate(s.TxBytes, last.TxBytes),
	}
	p.shown = showing{at: now, stats: s}
	return v
}

func (c *Console) clearPort(a args) {
	list := c.openPorts()
	if a[3] != "all" {
		p := c.shownPort(a, 3)
		if p == nil {
			return
		}
		list = []*portState{p}
	}
	if a[2] == "info" || a[2] == "fdir" {
		return // there is nothing to clear
	}
	for _, p := range list {
		p.ResetStats()
		p.shown = showing{}
		if c.fwd != nil {
			c.fwd.rebase(p.id, p.Stats())
		}
		if a[2] == "stats" {
			c.printf("\n  NIC statistics for port %d cleared\n", p.id)
		}
	}
}

func (c *Console) showPath(a args) {
	p := c.shownPort(a, 2)
	if p == nil {
		return
	}
	paths := p.Paths()
	c.printPath("Rx", p.id, paths.Rx)
	c.printPath("Tx", p.id, paths.Tx)
}

func (c *Console) printPath(dir string, id int, path port.Path) {
	if path.Name == "" {
		c.printf("%s path of port %d : none before the first start\n", dir, id)
		return
	}
	c.printf("%s path of port %d : %s\n  Reason : %s\n", dir, id, path.Name, path.Reason)
	if path.Unlock == "" {
		c.printf("  Simpler : there is none\n")
	} else {
		c.printf("  Simpler : %s\n", path.Unlock)
	}
}

func upDown(l port.Link) string {
	if l.Up {
		return "up"
	}
	return "down"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// speedText writes a speed in Mb/s as testpmd does.
func speedText(mbps uint32) string {
	switch {
	case mbps == 0:
		return "None"
	case mbps == port.SpeedUnknown:
		return "Unknown"
	case mbps < 1000:
		return fmt.Sprintf("%d Mbps", mbps)
	default:
		return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) + " Gbps"
	}
}
