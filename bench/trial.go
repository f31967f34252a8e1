package bench

import (
	"cmp"
	"slices"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// trial is entrants that run in turn under one load, and the cells that come of it.
type trial struct {
	load
	entrants    []entrant
	comparisons []comparison
}

// comparison is a cell before it is measured. Against and of are entrants of its trial,
// by number; of several the fastest counts.
type comparison struct {
	cell        report.Cell
	against, of []int
}

// side is who plays the two ends in one half of a comparison.
type side struct {
	name        string
	host, guest peer.End
}

// like is vionet's front end as like DPDK's as it can be: neither clears num_buffers in
// the header of a packet that goes on.
var like = peer.End{Vionet: true, Devargs: ",clear_num_buffers=0"}

// The sides of comparisons: the ends that are compared, and DPDK's other ends.
var (
	fronts  = [2]side{{"DPDK", peer.DPDK, peer.DPDK}, {"vionet", peer.DPDK, like}}
	hosts   = [2]side{{"DPDK", peer.DPDK, peer.DPDK}, {"vionet", peer.Vionet, peer.DPDK}}
	clearer = [2]side{{"DPDK", peer.DPDK, peer.DPDK}, {"vionet", peer.DPDK, peer.Vionet}}
	copiers = [2]side{{"copy", peer.Vionet, peer.DPDK}, {"zero copy", peer.End{Vionet: true, Devargs: ",dequeue-zero-copy=2"}, peer.DPDK}}
)

// entrant is a side at a place.
func (s side) entrant(t topology, at report.Coordinates) entrant {
	return entrant{name: s.name, host: s.host, guest: s.guest, at: bound(at), ports: t.ports}
}

// duel compares two sides at one place.
func duel(prefix string, sides [2]side, t topology, at report.Coordinates, bar report.Bar) trial {
	at.Topology = t.name
	c := report.Cell{Name: nameOf(prefix, at), At: at, Bar: bar,
		Against: report.Contestant{Name: sides[0].name}, Of: report.Contestant{Name: sides[1].name}}
	return trial{
		load:        load{t, at.Size, at.Burst},
		entrants:    []entrant{sides[0].entrant(t, at), sides[1].entrant(t, at)},
		comparisons: []comparison{{c, []int{0}, []int{1}}},
	}
}

// square compares two sides at two places, and for each side the second place to the
// first: what the difference between the places brings. Effect is the prefix of these
// two, and words are the contestants' names there.
func square(effect string, words [2]string, published report.Published, first, second trial) trial {
	both := trial{load: first.load, entrants: append(slices.Clone(first.entrants), second.entrants...), comparisons: slices.Clone(first.comparisons)}
	for _, c := range second.comparisons {
		both.comparisons = append(both.comparisons, comparison{c.cell, []int{2}, []int{3}})
	}
	for i, e := range first.entrants {
		at := second.comparisons[0].cell.At
		c := report.Cell{Name: nameOf(effect+e.name+"/", at), At: at, Published: &published,
			Against: report.Contestant{Name: words[0]}, Of: report.Contestant{Name: words[1]}}
		both.comparisons = append(both.comparisons, comparison{c, []int{i}, []int{i + 2}})
	}
	return both
}

// only leaves out the comparisons that are not wanted, and the entrants that nobody
// is compared with any more.
func (t trial) only(wanted func(name string) bool) trial {
	kept := trial{load: t.load}
	renumber := func(numbers []int) (now []int) {
		for _, n := range numbers {
			e := t.entrants[n]
			i := slices.Index(kept.entrants, e)
			if i < 0 {
				i = len(kept.entrants)
				kept.entrants = append(kept.entrants, e)
			}
			now = append(now, i)
		}
		return now
	}
	for _, c := range t.comparisons {
		if wanted(c.cell.Name) {
			kept.comparisons = append(kept.comparisons, comparison{c.cell, renumber(c.against), renumber(c.of)})
		}
	}
	return kept
}

// outcome fills a cell. Paths are what the entrants' front ends chose.
func (c comparison) outcome(r turns.Result[peer.Sample], entrants []entrant, paths []string) report.Cell {
	cell := c.cell
	against, of := fastest(r.Samples, c.against), fastest(r.Samples, c.of)
	r.Fill(&cell, against, of, mpps)
	for _, end := range []struct {
		contestant *report.Contestant
		choice     []int
		number     int
	}{{&cell.Against, c.against, against}, {&cell.Of, c.of, of}} {
		end.contestant.Path = paths[end.number]
		if len(end.choice) > 1 {
			end.contestant.Name = entrants[end.number].name
		}
	}
	return cell
}

func mpps(s peer.Sample) float64 { return s.Rate / 1e6 }

// fastest is the entrant among some with the highest median rate, each window's rate
// taken relative to that of all entrants in its round.
func fastest(samples [][]peer.Sample, among []int) int {
	relative := func(k int) float64 {
		var v []float64
		for round, s := range samples[k] {
			sum := 0.0
			for _, other := range samples {
				sum += other[round].Rate
			}
			v = append(v, s.Rate/max(sum, 1))
		}
		return report.QuartilesOf(v).Median
	}
	return slices.MaxFunc(among, func(a, b int) int { return cmp.Compare(relative(a), relative(b)) })
}

// processes is how many a trial has.
func (t trial) processes() int { return processes * len(t.entrants) }
