package bench

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// rates are samples in millions of packets a second.
func rates(of ...float64) (samples []peer.Sample) {
	for _, r := range of {
		samples = append(samples, peer.Sample{Rate: r * 1e6})
	}
	return samples
}

// A cell has the rates of both and the quartiles of the ratios of neighbours.
func TestOutcome(t *testing.T) {
	c := comparison{cell: report.Cell{Name: "x", Of: report.Contestant{Name: "b"}}, against: []int{0}, of: []int{1}}
	got := c.outcome(turns.Result[peer.Sample]{Samples: [][]peer.Sample{rates(1, 2, 4, 4), rates(1, 4, 12, 16)}, Disturbed: 3, Kept: 1},
		[]entrant{{name: "one"}, {name: "two"}}, []string{"path one", "path two"})
	want := report.Cell{
		Name:    "x",
		Against: report.Contestant{Value: report.Quartiles{Q1: 2, Median: 4, Q3: 4}, Path: "path one"},
		Of:      report.Contestant{Name: "b", Value: report.Quartiles{Q1: 4, Median: 12, Q3: 16}, Path: "path two"},
		Ratio:   report.Quartiles{Q1: 2, Median: 3, Q3: 4},
		Windows: 4, Disturbed: 3, Kept: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The fastest is the one that is so in most rounds, not the one with the best window
// on a machine whose speed changes: the second has the highest rate of all.
func TestFastest(t *testing.T) {
	samples := [][]peer.Sample{rates(9, 9, 9), rates(1, 10, 1), rates(2, 9, 2)}
	if got := fastest(samples, []int{1, 2}); got != 2 {
		t.Errorf("entrant %d, want 2", got)
	}
	c := comparison{against: []int{0}, of: []int{1, 2}}
	got := c.outcome(turns.Result[peer.Sample]{Samples: samples}, []entrant{{}, {name: "one"}, {name: "two"}}, make([]string, 3))
	if got.Of.Name != "two" || got.Of.Value.Median != 2 {
		t.Errorf("of several the cell has %+v", got.Of)
	}
}

// A square has both sides at both places, and each side's second place to its first.
func TestSquare(t *testing.T) {
	standard := base
	standard.Tx = standardTx
	s := square(simpler, [2]string{"standard", "simple"}, report.Published{Against: 2, Of: 3}, front(pvp, standard), front(pvp, base))
	type pair struct {
		name        string
		against, of string
	}
	who := func(e entrant) string { return e.name + " " + e.at.Tx }
	var got []pair
	for _, c := range s.comparisons {
		got = append(got, pair{c.cell.Name, who(s.entrants[c.against[0]]), who(s.entrants[c.of[0]])})
	}
	want := []pair{
		{"pvp/split/mrg/standard/64B/1q/b32", "DPDK standard", "vionet standard"},
		{"pvp/split/mrg/simple/64B/1q/b32", "DPDK simple", "vionet simple"},
		{"simple-over-standard/DPDK/pvp/split/mrg/simple/64B/1q/b32", "DPDK standard", "DPDK simple"},
		{"simple-over-standard/vionet/pvp/split/mrg/simple/64B/1q/b32", "vionet standard", "vionet simple"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
