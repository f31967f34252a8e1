package bench

import (
	"vionet/bench/report"
)

// publication is a published figure for each topology, without and with mergeable
// buffers, before and after a change.
type publication map[string][2]report.Published

// publishedTx is net/virtio's Tx path selection of 2018: the standard path and the
// simple one of the series.
var publishedTx = publication{
	pvp.name:         {{Against: 11.73, Of: 14.88}, {Against: 9.58, Of: 12.62}},
	guestToHost.name: {{Against: 13.90, Of: 19.64}, {Against: 13.93, Of: 19.69}},
	hostToGuest.name: {{Against: 17.50, Of: 17.50}, {Against: 16.70, Of: 16.70}},
	loopback.name:    {{Against: 13.19, Of: 13.14}, {Against: 13.11, Of: 13.11}},
}

// publishedRx is vhost's unified receive path of 2018: without mergeable buffers and
// with them, after the series.
var publishedRx = map[string]report.Published{
	pvp.name:         {Against: 14.87, Of: 9.38},
	guestToHost.name: {Against: 16.86, Of: 13.80},
	hostToGuest.name: {Against: 17.70, Of: 17.49},
	loopback.name:    {Against: 13.30, Of: 13.36},
}

// A square has four cells: both sides at either place, and what the second place brings
// each side.
const (
	firstPlace = iota
	secondPlace
	dpdkEffect
	vionetEffect
	squareCells
)

// squareNames are the names of several squares' cells, by their number in the square.
type squareNames [squareCells][]string

func (m *matrix) addSquare(names *squareNames, square trial) {
	for i, name := range m.add(square) {
		names[i] = append(names[i], name)
	}
}

// txPaths adds the tables of Tx path selection: both front ends, standard and simple
// path, in the four topologies without and with mergeable buffers.
func (m *matrix) txPaths() {
	grid := report.Grid{Down: report.Tx, Across: report.Topology}
	bars := report.Drawing{Kind: report.Bars, Across: report.Topology}
	var effects squareNames
	for i, t := range []report.Table{
		{Name: "tx-paths", Title: "Tx paths, mergeable off", Grid: &grid, Drawing: &bars,
			Note: "Front ends on DPDK's vhost. Standard is with an offload requested, the checksum of TCP; simple is without. " +
				"DPDK's front end has had no simple path since the published series was merged: its standard one runs with fewer features."},
		{Name: "tx-paths-mergeable", Title: "Tx paths, mergeable on", Grid: &grid, Drawing: &bars},
	} {
		var names squareNames
		for _, topology := range topologies {
			simple := base
			simple.Mergeable = i == 1
			standard := simple
			standard.Tx = standardTx
			m.addSquare(&names, square(simpler, [2]string{standardTx, simpleTx}, publishedTx[topology.name][i], front(topology, standard), front(topology, simple)))
		}
		m.show(t, append(names[firstPlace], names[secondPlace]...))
		for k := dpdkEffect; k <= vionetEffect; k++ {
			effects[k] = append(effects[k], names[k]...)
		}
	}
	across := report.Grid{Down: report.Mergeable, Across: report.Topology}
	m.show(report.Table{Name: "simple-vionet", Title: "Simple over standard Tx, vionet", Grid: &across}, effects[vionetEffect])
	m.show(report.Table{Name: "simple-dpdk", Title: "Simple over standard Tx, DPDK", Grid: &across}, effects[dpdkEffect])
}

// receivePaths adds the tables of the unified receive path: both hosts, without and
// with mergeable buffers, in the four topologies.
func (m *matrix) receivePaths() {
	var names squareNames
	for _, t := range topologies {
		plain := base
		plain.Mergeable = false
		m.addSquare(&names, square(merging, [2]string{"plain", "mergeable"}, publishedRx[t.name], host(t, plain), host(t, base)))
	}
	m.show(report.Table{Name: "hosts", Title: "Hosts, with DPDK's front end", Grid: &report.Grid{Down: report.Mergeable, Across: report.Topology},
		Drawing: &report.Drawing{Kind: report.Bars, Across: report.Topology},
		Note:    "One receive path serves both kinds of buffers, in either host."}, append(names[firstPlace], names[secondPlace]...))
	grid := report.Grid{Down: report.Tx, Across: report.Topology}
	m.show(report.Table{Name: "mergeable-vionet", Title: "Mergeable over plain buffers, vionet's host", Grid: &grid}, names[vionetEffect])
	m.show(report.Table{Name: "mergeable-dpdk", Title: "Mergeable over plain buffers, DPDK's host", Grid: &grid}, names[dpdkEffect])
}
