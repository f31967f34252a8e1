package testpmd

import (
	"net"

	"vionet/port"
)

// portsJSON is what "show port (info|stats|summary|xstats)" shows.
type portsJSON[P any] struct {
	Ports []P `json:"ports"`
}

// portsValue collects the values of the ports at word 3; nil after a complaint.
func portsValue[P any](c *Console, a args, value func(*portState) P) any {
	list := c.openPorts()
	if a[3] != "all" {
		p := c.shownPort(a, 3)
		if p == nil {
			return nil
		}
		list = []*portState{p}
	}
	v := portsJSON[P]{Ports: []P{}}
	for _, p := range list {
		v.Ports = append(v.Ports, value(p))
	}
	return v
}

func (c *Console) portJSON(a args) any {
	switch a[2] {
	case "info":
		return portsValue(c, a, (*portState).infoJSON)
	case "summary":
		return portsValue(c, a, (*portState).summaryJSON)
	case "xstats":
		return portsValue(c, a, c.xstatsJSON)
	default:
		return portsValue(c, a, (*portState).takeStats)
	}
}

// summaryJSON are a port's name and link.
type summaryJSON struct {
	PortID     int    `json:"port_id"`
	MACAddress string `json:"mac_address"`
	DeviceName string `json:"device_name"`
	DriverName string `json:"driver_name"`
	LinkStatus string `json:"link_status"`
	// LinkSpeed is in Mb/s; null: unknown, or no link.
	LinkSpeed *uint32 `json:"link_speed_mbps"`
}

func (p *portState) summaryJSON() summaryJSON {
	info, link := p.Info(), p.Link()
	s := summaryJSON{p.id, formatMAC(info.MAC), info.Name, info.Driver, upDown(link), nil}
	if link.Speed != 0 && link.Speed != port.SpeedUnknown {
		s.LinkSpeed = &link.Speed
	}
	return s
}

// infoJSON is what "show port info" shows.
type infoJSON struct {
	summaryJSON
	Devargs         string         `json:"devargs"`
	FullDuplex      bool           `json:"link_full_duplex"`
	MTU             int            `json:"mtu"`
	Promiscuous     bool           `json:"promiscuous"`
	AllMulticast    bool           `json:"all_multicast"`
	MaxMACs         int            `json:"max_mac_addresses"`
	VLAN            vlanJSON       `json:"vlan_offload"`
	RSS             *rssLimitsJSON `json:"rss"` // null: there is none
	MinRxBufferSize int            `json:"min_rx_buffer_size"`
	MaxRxPacketLen  int            `json:"max_rx_packet_length"`
	RxQueues        int            `json:"rx_queues"`
	MaxRxQueues     int            `json:"max_rx_queues"`
	TxQueues        int            `json:"tx_queues"`
	MaxTxQueues     int            `json:"max_tx_queues"`
	MinDescriptors  int            `json:"min_descriptors"`
	MaxDescriptors  int            `json:"max_descriptors"`
}

type vlanJSON struct {
	Strip     bool `json:"strip"`
	Filter    bool `json:"filter"`
	Extend    bool `json:"extend"`
	QinQStrip bool `json:"qinq_strip"`
}

type rssLimitsJSON struct {
	KeySize   int      `json:"hash_key_size"`
	TableSize int      `json:"redirection_table_size"`
	Types     []string `json:"types"`
}

func (p *portState) infoJSON() infoJSON {
	info, link := p.Info(), p.Link()
	v := infoJSON{
		summaryJSON: p.summaryJSON(), Devargs: info.Devargs, FullDuplex: link.FullDuplex, MTU: info.MTU,
		Promiscuous: info.Promiscuous, MaxMACs: info.MaxMACs,
		VLAN: vlanJSON{
			p.vlan&port.RxVLANStrip != 0, p.vlan&port.RxVLANFilt != 0, p.vlan&port.RxVLANExt != 0, p.vlan&rxQinQStrip != 0,
		},
		MinRxBufferSize: info.MinRxBufSize, MaxRxPacketLen: info.MaxRxPktLen,
		RxQueues: info.RxQueues, MaxRxQueues: info.MaxRxQueues, TxQueues: info.TxQueues, MaxTxQueues: info.MaxTxQueues,
		MinDescriptors: info.MinDesc, MaxDescriptors: info.MaxDesc,
	}
	if !p.started && p.mtu != 0 {
		v.MTU = p.mtu
	}
	if m, ok := p.Port.(port.AllMulticaster); ok {
		v.AllMulticast = m.AllMulticast()
	}
	if s, limits := p.rss(); s != nil {
		v.RSS = &rssLimitsJSON{limits.MaxKey, p.rssTable(), words(limits.Types.String())}
	}
	return v
}

// statsJSON is what "show port stats" shows. Rates are since the last time.
type statsJSON struct {
	PortID    int    `json:"port_id"`
	RxPackets uint64 `json:"rx_packets"`
	RxMissed  uint64 `json:"rx_missed"`
	RxBytes   uint64 `json:"rx_bytes"`
	RxErrors  uint64 `json:"rx_errors"`
	RxNoBuf   uint64 `json:"rx_nombuf"`
	TxPackets uint64 `json:"tx_packets"`
	TxErrors  uint64 `json:"tx_errors"`
	TxBytes   uint64 `json:"tx_bytes"`
	RxPPS     uint64 `json:"rx_pps"`
	RxBPS     uint64 `json:"rx_bps"`
	TxPPS     uint64 `json:"tx_pps"`
	TxBPS     uint64 `json:"tx_bps"`
}

func (c *Console) xstatsJSON(p *portState) map[string]uint64 {
	v := map[string]uint64{"port_id": uint64(p.id)}
	for _, x := range c.seenXstats(p) {
		v[x.name] = x.value
	}
	return v
}

// pathsJSON is what "show port N path" shows.
type pathsJSON struct {
	PortID int       `json:"port_id"`
	Rx     *pathJSON `json:"rx"` // null before the first start
	Tx     *pathJSON `json:"tx"`
}

type pathJSON struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Simpler string `json:"simpler"`
}

func (c *Console) pathJSON(a args) any {
	p := c.shownPort(a, 2)
	if p == nil {
		return nil
	}
	of := func(path port.Path) *pathJSON {
		if path.Name == "" {
			return nil
		}
		return &pathJSON{path.Name, path.Reason, path.Unlock}
	}
	paths := p.Paths()
	return pathsJSON{p.id, of(paths.Rx), of(paths.Tx)}
}

// featuresJSON is what "show port N features" shows.
type featuresJSON struct {
	PortID     int      `json:"port_id"`
	Offered    []string `json:"offered"`
	Asked      []string `json:"asked_for"`
	Negotiated []string `json:"negotiated"`
}

func (c *Console) featuresJSON(a args) any {
	p := c.shownPort(a, 2)
	if p == nil {
		return nil
	}
	lister, ok := p.Port.(port.FeatureLister)
	if !ok {
		c.errorf("Port %d has no features of virtio\n", p.id)
		return nil
	}
	offered, asked, negotiated := lister.Features()
	return featuresJSON{p.id, append([]string{}, offered...), append([]string{}, asked...), append([]string{}, negotiated...)}
}

// addressesJSON is what "show port N (macs|mcast_macs)" shows.
type addressesJSON struct {
	PortID    int      `json:"port_id"`
	Addresses []string `json:"addresses"`
}

func (c *Console) addressesJSON(a args) any {
	p := c.portOf(a, 2)
	if p == nil {
		return nil
	}
	list := multicastOf(p)
	if a[3] == "macs" {
		list = []net.HardwareAddr{p.Info().MAC}
		if f, ok := p.Port.(port.MACFilter); ok {
			list = f.MACs()
		}
	}
	v := addressesJSON{p.id, []string{}}
	for _, mac := range list {
		v.Addresses = append(v.Addresses, formatMAC(mac))
	}
	return v
}

// capabilitiesJSON is what "show port N (rx|tx)_offload capabilities" shows.
type capabilitiesJSON struct {
	PortID   int      `json:"port_id"`
	PerQueue []string `json:"per_queue"`
	PerPort  []string `json:"per_port"`
}

func (c *Console) capabilitiesJSON(a args) any {
	p := c.shownOffloads(a, "(port %d) info")
	if p == nil {
		return nil
	}
	names := p.Info().RxCapa.String()
	if a[3] == "tx_offload" {
		names = p.Info().TxCapa.String()
	}
	return capabilitiesJSON{p.id, []string{}, words(names)}
}

// offloadsJSON is what "show port N (rx|tx)_offload configuration" shows.
type offloadsJSON struct {
	PortID int        `json:"port_id"`
	Port   []string   `json:"port"`
	Queues [][]string `json:"queues"`
}

func (c *Console) offloadsJSON(a args) any {
	p := c.shownOffloads(a, "configuration (port %d)")
	if p == nil {
		return nil
	}
	active, queues := p.rxActive().String(), texts(p.rxQueueOffloads)
	if a[3] == "tx_offload" {
		active, queues = p.applied.TxOffloads.String(), texts(p.txQueueOffloads)
	}
	v := offloadsJSON{p.id, words(active), [][]string{}}
	for _, q := range queues {
		v.Queues = append(v.Queues, words(q))
	}
	return v
}

// ptypesJSON is what "show port N ptypes" shows: ports classify nothing.
type ptypesJSON struct {
	PortID int      `json:"port_id"`
	Types  []string `json:"ptypes"`
}

func (c *Console) ptypesJSON(a args) any {
	p := c.portOf(a, 2)
	if p == nil {
		return nil
	}
	return ptypesJSON{p.id, []string{}}
}

// devicesJSON is what "show device info" shows.
type devicesJSON struct {
	Devices []deviceJSON `json:"devices"`
}

type deviceJSON struct {
	Name    string `json:"device_name"`
	Bus     string `json:"bus_name"`
	Driver  string `json:"driver_name"`
	Devargs string `json:"devargs"`
	PortID  int    `json:"port_id"`
	MAC     string `json:"mac_address"`
}

func (c *Console) devicesJSON(a args) any {
	list := c.openPorts()
	if a[3] != "all" {
		p := c.named(a[3])
		if p == nil {
			c.errorf("cannot parse identifier\n")
			return nil
		}
		list = []*portState{p}
	}
	v := devicesJSON{[]deviceJSON{}}
	for _, p := range list {
		info := p.Info()
		v.Devices = append(v.Devices, deviceJSON{info.Name, busOf(info.Name), info.Driver, info.Devargs, p.id, formatMAC(info.MAC)})
	}
	return v
}
