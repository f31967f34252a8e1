package bench

import (
	"fmt"
	"regexp"
	"slices"

	"vionet/bench/report"
)

// matrix is what can be measured, and how it is shown.
type matrix struct {
	trials []trial
	tables []table
}

// table is a table of the report and the names of its cells. A cell can be in several.
type table struct {
	report.Table
	names []string
}

// The values of the coordinates.
var (
	sizes  = []int{64, 128, 256, 512, 1024, 1400, 1518}
	pairs  = []int{1, 2}
	bursts = []int{1, 4, 8, 32, 64, 256}
)

// base is the place about which one coordinate at a time is varied.
var base = report.Coordinates{Ring: "split", Mergeable: true, Tx: simpleTx, Size: 64, Queues: 1, Burst: 32}

// frontBar is what a front end has to reach against DPDK's.
func frontBar(t topology, size int) report.Bar {
	if t.name == guestToHost.name && size == 64 {
		return report.Bar{Least: 1.5}
	}
	return report.Bar{Least: 1.1}
}

// front and host are the two comparisons of a place.
func front(t topology, at report.Coordinates) trial {
	return duel(frontEnds, fronts, t, at, frontBar(t, at.Size))
}

func host(t topology, at report.Coordinates) trial {
	return duel(hostEnds, hosts, t, at, report.Bar{Least: 1})
}

// add adds trials, apart from cells that there are already, and tells the names of all
// their cells.
func (m *matrix) add(trials ...trial) (names []string) {
	for _, t := range trials {
		for _, c := range t.comparisons {
			names = append(names, c.cell.Name)
		}
		if t = t.only(func(name string) bool { return !m.has(name) }); len(t.comparisons) > 0 {
			m.trials = append(m.trials, t)
		}
	}
	return names
}

func (m *matrix) has(name string) bool {
	return slices.ContainsFunc(m.trials, func(t trial) bool {
		return slices.ContainsFunc(t.comparisons, func(c comparison) bool { return c.cell.Name == name })
	})
}

// show adds a table of cells.
func (m *matrix) show(t report.Table, names []string) {
	t.Unit = report.Mpps
	m.tables = append(m.tables, table{t, names})
}

// chosen is the set that is measured when nobody asks for other cells: the published
// tables, and one coordinate at a time varied about the base.
func chosen() *matrix {
	m := new(matrix)
	m.txPaths()
	m.vary("sizes", "Front ends by frame size", report.Drawing{Kind: report.Lines, Across: report.Size}, func(at *report.Coordinates, i int) bool {
		return pick(&at.Size, sizes, i)
	})
	m.vary("bursts", "Front ends by burst", report.Drawing{Kind: report.Lines, Across: report.Burst}, func(at *report.Coordinates, i int) bool {
		return pick(&at.Burst, bursts, i)
	})
	m.vary("queues", "Front ends by queue pairs", report.Drawing{Kind: report.Bars, Across: report.Topology}, func(at *report.Coordinates, i int) bool {
		return pick(&at.Queues, pairs, i)
	})
	m.vary("offloads", "Front ends with and without offloads", report.Drawing{Kind: report.Bars, Across: report.Topology}, func(at *report.Coordinates, i int) bool {
		if i == 1 {
			at.Offloads, at.Tx = true, standardTx
		}
		return i <= 1
	})
	m.vary("rings", "Front ends by kind of ring", report.Drawing{Kind: report.Bars, Across: report.Topology}, func(at *report.Coordinates, i int) bool {
		if i >= len(ringKinds) {
			return false
		}
		*at = withRing(*at, ringKinds[i].word)
		at.Mergeable = !at.Vector // which DPDK has without mergeable buffers only
		return true
	})
	m.clearing()
	m.receivePaths()
	m.best()
	m.dequeueZeroCopy()
	return m
}

// pick sets a coordinate to one of its values, if there are so many.
func pick(to *int, values []int, i int) bool {
	if i >= len(values) {
		return false
	}
	*to = values[i]
	return true
}

// vary adds a table of front ends at places about the base, in every topology: set
// makes the i-th of them, until it says no.
func (m *matrix) vary(name, title string, drawing report.Drawing, set func(at *report.Coordinates, i int) bool) {
	var names []string
	for i, at := 0, base; set(&at, i); i, at = i+1, base {
		for _, t := range topologies {
			names = append(names, m.add(front(t, at))...)
		}
	}
	m.show(report.Table{Name: name, Title: title, Drawing: &drawing}, names)
}

// clearing shows what it costs where packets go on, and come back with num_buffers,
// that vionet clears this field unless it is told not to.
func (m *matrix) clearing() {
	var names []string
	for _, t := range []topology{pvp, loopback} {
		names = append(names, m.add(duel(cleared, clearer, t, base, report.Bar{}))...)
	}
	m.show(report.Table{Name: "num-buffers", Title: "With num_buffers cleared, as is vionet's way without clear_num_buffers=0",
		Note: "DPDK's front end never clears it, and vionet's does not in the other tables."}, names)
}

// best compares each one's fastest configuration in each topology.
func (m *matrix) best() {
	at := base
	at.Mergeable = false
	var names []string
	for _, t := range topologies {
		at.Topology = t.name
		best := trial{load: load{t, at.Size, at.Burst}}
		sides := [2][]int{}
		for i, s := range fronts {
			for _, k := range ringKinds {
				if k.vector && s.guest.Vionet {
					continue // the same as without
				}
				e := s.entrant(t, withRing(at, k.word))
				e.name += " " + k.word
				sides[i] = append(sides[i], len(best.entrants))
				best.entrants = append(best.entrants, e)
			}
		}
		cell := report.Cell{Name: fmt.Sprintf("%s%s/%dB/%dq/b%d", bestOf, t.name, at.Size, at.Queues, at.Burst), Bar: frontBar(t, at.Size),
			At:      report.Coordinates{Topology: t.name, Size: at.Size, Queues: at.Queues, Burst: at.Burst},
			Against: report.Contestant{Name: fronts[0].name}, Of: report.Contestant{Name: fronts[1].name}}
		best.comparisons = []comparison{{cell, sides[0], sides[1]}}
		names = append(names, m.add(best)...)
	}
	m.show(report.Table{Name: "best", Title: "The best of each, whatever it is", Drawing: &report.Drawing{Kind: report.Bars, Across: report.Topology},
		Note: "DPDK's candidates are split and packed rings, in order or not, and vectorized, with 512 bits allowed; vionet's the same without the last. Each side's fastest in the same rounds is compared, all without mergeable buffers."}, names)
}

// dequeueZeroCopy has the rows of the published table of vhost's dequeue zero copy,
// and those that it only tells of. What was lost there by forwarding short frames need
// not be lost.
func (m *matrix) dequeueZeroCopy() {
	var names []string
	for _, row := range []struct {
		topology
		size  int
		least float64
	}{
		{guestToHost, 64, 0}, {guestToHost, 512, 0}, {guestToHost, 1400, 1.4}, {guestToGuest, 1400, 1.7}, {pvp, 64, 0.85},
	} {
		at := base
		at.Size = row.size
		names = append(names, m.add(duel(zeroCopy, copiers, row.topology, at, report.Bar{Least: row.least}))...)
	}
	m.show(report.Table{Name: "zero-copy", Title: "Dequeue zero copy, on vionet's vhost", Note: "Published in 2016: +40 % and more from guest to host at 1400 B, about +70 % from guest to guest, about −15 % when 64 B are forwarded."}, names)
}

// all is every cell that has a name: the chosen ones first, then front ends and hosts
// at every place.
func all() *matrix {
	m := chosen()
	known := map[string]bool{}
	for _, t := range m.trials {
		for _, c := range t.comparisons {
			known[c.cell.Name] = true
		}
	}
	for _, compare := range []func(topology, report.Coordinates) trial{front, host} {
		for _, t := range topologies {
			for _, at := range places() {
				if d := compare(t, at); !known[d.comparisons[0].cell.Name] {
					m.trials = append(m.trials, d)
				}
			}
		}
	}
	return m
}

// places are all combinations of coordinates that make sense.
func places() (all []report.Coordinates) {
	for _, k := range ringKinds {
		for _, mergeable := range []bool{false, true} {
			for _, tx := range []string{simpleTx, standardTx, ""} {
				for _, size := range sizes {
					for _, queues := range pairs {
						for _, burst := range bursts {
							at := withRing(report.Coordinates{Mergeable: mergeable, Tx: tx, Size: size, Queues: queues, Burst: burst}, k.word)
							if tx == "" {
								at.Tx, at.Offloads = standardTx, true
							}
							if k.vector && (mergeable || at.Offloads) {
								continue // DPDK would take other paths
							}
							all = append(all, at)
						}
					}
				}
			}
		}
	}
	return all
}

// only leaves the cells that are wanted. Tables with a single one of them are left out,
// too, since a cell can be in many; those that no table shows then get one.
func (m *matrix) only(wanted func(name string) bool) *matrix {
	kept := new(matrix)
	for _, t := range m.trials {
		if t = t.only(wanted); len(t.comparisons) > 0 {
			kept.trials = append(kept.trials, t)
		}
	}
	shown := map[string]bool{}
	for _, t := range m.tables {
		t.names = slices.DeleteFunc(slices.Clone(t.names), func(name string) bool { return !wanted(name) })
		if len(t.names) < 2 {
			continue
		}
		kept.tables = append(kept.tables, t)
		for _, name := range t.names {
			shown[name] = true
		}
	}
	others := slices.DeleteFunc(kept.names(), func(name string) bool { return shown[name] })
	if len(others) > 0 {
		kept.show(report.Table{Name: "cells", Title: "Single cells"}, others)
	}
	return kept
}

// names are those of all cells.
func (m *matrix) names() (all []string) {
	for _, t := range m.trials {
		for _, c := range t.comparisons {
			all = append(all, c.cell.Name)
		}
	}
	return all
}

// quick are the names of the cells that a quick run measures. The best of each side
// takes ten pairs of processes a topology, and so more time than all the others.
var quick = regexp.MustCompile(`^([a-z-]+/split/mrg/(simple|standard)/(64|1400)B/1q/b32|` + simpler + `[^/]+/[^/]+/split/mrg/.*)$`)

// wires are the sizes that the wires of hosts need.
func (m *matrix) wires() (sizes []int) {
	for _, t := range m.trials {
		if t.wire && !slices.Contains(sizes, t.size) {
			sizes = append(sizes, t.size)
		}
	}
	return sizes
}

// windows is how many there are in all, with so many for each contestant.
func (m *matrix) windows(each int) (all int) {
	for _, t := range m.trials {
		all += each * len(t.entrants)
	}
	return all
}

// wants reports whether an entrant is in a trial from a number on.
func (m *matrix) wants(e entrant, from int) bool {
	return slices.ContainsFunc(m.trials[from:], func(t trial) bool { return slices.Contains(t.entrants, e) })
}

// waiting is how many processes may be kept for later trials.
const waiting = 16

// processes is how many there are at most at once.
func (m *matrix) processes() (most int) {
	different := map[entrant]bool{}
	for _, t := range m.trials {
		most = max(most, t.processes())
		for _, e := range t.entrants {
			different[e] = true
		}
	}
	return max(most, min(processes*len(different), waiting))
}

// fill gives the tables with those of their cells that there are.
func (m *matrix) fill(cells map[string]report.Cell) (tables []report.Table) {
	for _, t := range m.tables {
		for _, name := range t.names {
			if c, there := cells[name]; there {
				t.Cells = append(t.Cells, c)
			}
		}
		if len(t.Cells) > 0 {
			tables = append(tables, t.Table)
		}
	}
	return tables
}
