package testpmd

import "cmp"

// linkJSON is the way of packets from a receive to a transmit queue.
type linkJSON struct {
	RxPort  int    `json:"rx_port"`
	RxQueue int    `json:"rx_queue"`
	TxPort  int    `json:"tx_port"`
	TxQueue int    `json:"tx_queue"`
	Peer    string `json:"peer"`
}

// forwardingJSON is what "show config fwd" shows.
type forwardingJSON struct {
	Mode     string              `json:"mode"`
	Retry    *retryJSON          `json:"retry"`     // null: without
	TxBuffer *txBufferConfigJSON `json:"tx_buffer"` // null: without
	Poll     pollJSON            `json:"poll"`
	Ports    int                 `json:"nb_ports"`
	Cores    []coreJSON          `json:"cores"`
}

// pollJSON is what forwarding cores do while nothing moves.
type pollJSON struct {
	Mode PollMode `json:"mode"`
	Spin int64    `json:"spin_us"` // before a sleep in mode adaptive
}

type retryJSON struct {
	Count int   `json:"count"`
	Delay int64 `json:"delay_us"`
}

type coreJSON struct {
	LCore   int        `json:"lcore"`
	Streams []linkJSON `json:"streams"`
}

func (c *Console) retryJSON() *retryJSON {
	if !c.retry {
		return nil
	}
	return &retryJSON{c.retries, c.delay.Microseconds()}
}

func (c *Console) forwardingJSON() forwardingJSON {
	links := c.links()
	n := c.nbWorkers(len(links))
	v := forwardingJSON{c.mode.Name, c.retryJSON(), c.txBufferConfigJSON(), pollJSON{c.Options.PollMode, c.Options.Spin.Microseconds()}, c.nbPorts, []coreJSON{}}
	for k := range n {
		core := coreJSON{LCore: c.fwdCores[k].ID}
		for _, l := range share(links, k, n) {
			peer := c.ports[l.txPort].peer
			core.Streams = append(core.Streams, linkJSON{l.rxPort, l.rxQueue, l.txPort, l.txQueue, formatMAC(peer[:])})
		}
		v.Cores = append(v.Cores, core)
	}
	return v
}

// queuesJSON is what "show config rxtx" shows.
type queuesJSON struct {
	Mode    string           `json:"mode"`
	Retry   *retryJSON       `json:"retry"`
	Burst   int              `json:"burst"`
	NbCores int              `json:"nb_cores"`
	NbPorts int              `json:"nb_ports"`
	Ports   []portQueuesJSON `json:"ports"`
}

type portQueuesJSON struct {
	PortID int           `json:"port_id"`
	Rx     directionJSON `json:"rx"`
	Tx     directionJSON `json:"tx"`
}

// directionJSON is what the queues of one direction are set to.
type directionJSON struct {
	Queues      int            `json:"queues"`
	Descriptors int            `json:"descriptors"` // 0: the device's
	Offloads    uint64         `json:"offloads"`    // a mask
	Thresholds  thresholdsJSON `json:"thresholds"`
}

func (c *Console) queuesJSON() queuesJSON {
	opts := c.Options
	v := queuesJSON{c.mode.Name, c.retryJSON(), opts.Burst, opts.NbCores, c.nbPorts, []portQueuesJSON{}}
	for _, p := range c.openPorts() {
		v.Ports = append(v.Ports, portQueuesJSON{
			PortID: p.id,
			Rx:     directionJSON{opts.RxQueues, cmp.Or(p.rxQueues[0].ring, opts.RxDesc), uint64(p.rxOffloads), opts.RxThresholds.json()},
			Tx:     directionJSON{opts.TxQueues, cmp.Or(p.txQueues[0].ring, opts.TxDesc), uint64(p.txOffloads), opts.TxThresholds.json()},
		})
	}
	return v
}

// segmentsJSON is what "show config (txpkts|rxpkts|rxhdrs)" shows.
type segmentsJSON struct {
	Segments []int  `json:"segments"`
	Split    string `json:"split,omitempty"`
}

func (c *Console) configJSON(a args) any {
	list := func(n []int) []int { return append([]int{}, n...) }
	switch a[2] {
	case "rxtx":
		return c.queuesJSON()
	case "cores":
		cores := []int{}
		for _, core := range c.fwdCores[:c.Options.NbCores] {
			cores = append(cores, core.ID)
		}
		return struct {
			Cores []int `json:"cores"`
		}{cores}
	case "txpkts":
		return segmentsJSON{list(c.Options.TxSegs), c.txSplit}
	case "txtimes":
		return struct {
			Inter int `json:"interburst_gap"`
			Intra int `json:"intraburst_gap"`
		}{c.txTimes[0], c.txTimes[1]}
	case "rxpkts":
		return segmentsJSON{Segments: list(c.rxPkts)}
	case "rxoffs":
		return struct {
			Offsets []int `json:"offsets"`
		}{list(c.rxOffs)}
	case "rxhdrs":
		return segmentsJSON{Segments: []int{}}
	default:
		return c.forwardingJSON()
	}
}

// fwdStatsJSON is what "show fwd stats all" shows.
type fwdStatsJSON struct {
	Mode    string       `json:"mode"`
	Running bool         `json:"running"`
	Streams []streamJSON `json:"streams"`
	Ports   []totalsJSON `json:"ports"`
	Total   totalsJSON   `json:"total"`
	Capture *captureJSON `json:"capture"` // null: none
}

type streamJSON struct {
	RxPort    int    `json:"rx_port"`
	RxQueue   int    `json:"rx_queue"`
	TxPort    int    `json:"tx_port"`
	TxQueue   int    `json:"tx_queue"`
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	TxDropped uint64 `json:"tx_dropped"`
}

type totalsJSON struct {
	PortID    *int   `json:"port_id,omitempty"`
	RxPackets uint64 `json:"rx_packets"`
	RxDropped uint64 `json:"rx_dropped"`
	RxTotal   uint64 `json:"rx_total"`
	BadIPSum  uint64 `json:"bad_ipcsum"`
	BadL4Sum  uint64 `json:"bad_l4csum"`
	RxErrors  uint64 `json:"rx_errors"`
	RxNoBuf   uint64 `json:"rx_nombufs"`
	TxPackets uint64 `json:"tx_packets"`
	TxDropped uint64 `json:"tx_dropped"`
	TxTotal   uint64 `json:"tx_total"`
	Batches   uint64 `json:"batches"`
	NewFlows  uint64 `json:"new_flows"`
}

// captureJSON is how far a capture is.
type captureJSON struct {
	File    string `json:"file"`
	Packets uint64 `json:"packets"`
	Dropped uint64 `json:"dropped"`
}

func (t portTotals) json(id *int) totalsJSON {
	return totalsJSON{
		PortID: id, RxPackets: t.rx, RxDropped: t.missed, RxTotal: t.rx + t.missed,
		BadIPSum: t.badIP, BadL4Sum: t.badL4, RxErrors: t.errors, RxNoBuf: t.noBuf,
		TxPackets: t.tx, TxDropped: t.txDropped, TxTotal: t.tx + t.txDropped,
		Batches: t.batches, NewFlows: t.newFlows,
	}
}

func (c *Console) fwdStatsJSON(args) any {
	v := fwdStatsJSON{Mode: c.mode.Name, Streams: []streamJSON{}, Ports: []totalsJSON{}}
	if rec := c.capture; rec != nil {
		written, dropped := rec.Counts()
		v.Capture = &captureJSON{rec.Name(), written, dropped}
	}
	if c.fwd == nil {
		return v
	}
	v.Mode, v.Running = c.fwd.engine.Name, true
	for _, s := range c.fwd.streams {
		v.Streams = append(v.Streams, streamJSON{s.RxPort, s.RxQueue, s.TxPort, s.TxQueue, s.RxPackets.Load(), s.TxPackets.Load(), s.TxDropped.Load()})
	}
	var sum portTotals
	for _, id := range c.fwd.ports {
		t := c.fwd.totals(id, c.ports[id].Stats())
		sum.add(t)
		sum.badIP, sum.badL4 = sum.badIP+t.badIP, sum.badL4+t.badL4
		sum.batches, sum.newFlows = sum.batches+t.batches, sum.newFlows+t.newFlows
		sum.errors, sum.noBuf = sum.errors+t.errors, sum.noBuf+t.noBuf
		v.Ports = append(v.Ports, t.json(&id))
	}
	v.Total = sum.json(nil)
	return v
}
