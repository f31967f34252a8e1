package bench

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/bench/report"
)

// A name belongs to one cell, has the words that its place has, and selects it.
func TestNamesAreSystematic(t *testing.T) {
	m := all()
	seen := map[string]bool{}
	for _, name := range m.names() {
		if seen[name] {
			t.Errorf("two cells have the name %s", name)
		}
		seen[name] = true
	}
	// 6 kinds of ring, of which two vectorized: 4·2·3 + 2·2 places by 7 sizes, 2
	// numbers of queues, 6 bursts and 4 topologies, for front ends and for hosts.
	const compared = (4*2*3 + 2*2) * 7 * 2 * 6 * 4
	for prefix, want := range map[string]int{frontEnds: compared, hostEnds: compared, simpler: 16, merging: 8, bestOf: 4, cleared: 2, zeroCopy: 5} {
		got := 0
		for name := range seen {
			if prefixOf(name) == prefix {
				got++
			}
		}
		if got != want {
			t.Errorf("%d cells with prefix %q, want %d", got, prefix, want)
		}
	}
	for _, name := range []string{
		"guest-to-host/split/mrg/simple/64B/1q/b32", "pvp/packed-vec/nomrg/standard/1518B/2q/b256",
		"loopback/packed-inorder/nomrg/offload/1400B/1q/b1", "hosts/host-to-guest/split-inorder/mrg/simple/128B/2q/b4",
	} {
		s := Settings{Cells: regexp.MustCompile(name)}
		if got := s.List(); !slices.Equal(got, []string{name}) {
			t.Errorf("%s selects %v", name, got)
		}
	}
	if got := (Settings{Cells: regexp.MustCompile("guest-to-host")}).List(); len(got) > 0 {
		t.Errorf("a part of names selects %d cells", len(got))
	}
}

// prefixOf is what the name of a cell begins with, unless it compares front ends.
func prefixOf(name string) string {
	for _, prefix := range []string{hostEnds, simpler, merging, bestOf, cleared, zeroCopy} {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return frontEnds
}

// The chosen set has every value of every coordinate, each table's cells, and the bars
// that were set.
func TestChosenSet(t *testing.T) {
	m := chosen()
	cells := map[string]report.Cell{}
	values := map[string]bool{}
	for _, trial := range m.trials {
		for _, c := range trial.comparisons {
			cells[c.cell.Name] = c.cell
			if prefixOf(c.cell.Name) == frontEnds {
				for _, word := range strings.Split(c.cell.Name, "/") {
					values[word] = true
				}
			}
		}
	}
	for _, word := range strings.Fields("pvp guest-to-host host-to-guest loopback split split-inorder packed packed-inorder split-vec packed-vec " +
		"mrg nomrg simple standard offload 64B 128B 256B 512B 1024B 1400B 1518B 1q 2q b1 b4 b8 b32 b64 b256") {
		if !values[word] {
			t.Errorf("no cell of front ends has %s", word)
		}
	}
	for _, table := range m.tables {
		for _, name := range table.names {
			if _, there := cells[name]; !there {
				t.Errorf("table %s has no cell %s", table.Name, name)
			}
		}
	}
	for name, want := range map[string]float64{
		"guest-to-host/split/mrg/simple/64B/1q/b32":   1.5,
		"guest-to-host/split/mrg/simple/1400B/1q/b32": 1.1,
		"loopback/packed/mrg/simple/64B/1q/b32":       1.1,
		"hosts/pvp/split/mrg/simple/64B/1q/b32":       1,
		"best/guest-to-host/64B/1q/b32":               1.5,
		"best/pvp/64B/1q/b32":                         1.1,
	} {
		if got := cells[name].Bar.Least; got != want {
			t.Errorf("%s has to reach %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{
		"simple-over-standard/vionet/guest-to-host/split/mrg/simple/64B/1q/b32": 1.41,
		"simple-over-standard/vionet/pvp/split/nomrg/simple/64B/1q/b32":         1.27,
		"simple-over-standard/vionet/pvp/split/mrg/simple/64B/1q/b32":           1.32,
		"simple-over-standard/vionet/loopback/split/mrg/simple/64B/1q/b32":      1,
	} {
		if p := cells[name].Published; p == nil || p.Ratio() < want-0.006 || p.Ratio() > want+0.006 {
			t.Errorf("%s was published as %v, want %v", name, p, want)
		}
	}
}

// A single cell of a table takes no more contestants than it compares, and is shown
// once.
func TestOneCellOfATable(t *testing.T) {
	m := chosen().only(func(name string) bool { return name == "guest-to-host/split/mrg/simple/64B/1q/b32" })
	if len(m.trials) != 1 || len(m.trials[0].entrants) != 2 || len(m.trials[0].comparisons) != 1 {
		t.Fatalf("%+v", m.trials)
	}
	want := []entrant{
		{name: "DPDK", at: report.Coordinates{Ring: "split", Mergeable: true, Tx: "simple", Queues: 1}, ports: 1},
		{name: "vionet", guest: like, at: report.Coordinates{Ring: "split", Mergeable: true, Tx: "simple", Queues: 1}, ports: 1},
	}
	if !slices.Equal(m.trials[0].entrants, want) {
		t.Errorf("entrants %+v, want %+v", m.trials[0].entrants, want)
	}
	if c := m.trials[0].comparisons[0]; !slices.Equal(c.against, []int{0}) || !slices.Equal(c.of, []int{1}) {
		t.Errorf("compares %v with %v", c.of, c.against)
	}
	if len(m.tables) != 1 || m.tables[0].Name != "cells" {
		t.Errorf("it stands in %+v", m.tables)
	}
}

// A quick run has the published effect and two frame sizes.
func TestQuickSet(t *testing.T) {
	names := Settings{Quick: true}.List()
	want := len(topologies) * (4 + 1)
	if len(names) != want {
		t.Errorf("%d cells, want %d: %v", len(names), want, names)
	}
}

// A report has the tables of what was measured, and a cell in each table that shows it.
func TestFill(t *testing.T) {
	base := "guest-to-host/split/mrg/simple/64B/1q/b32"
	missing := "loopback/split/mrg/simple/64B/1q/b32"
	tables := chosen().fill(map[string]report.Cell{base: {Name: base, Windows: 1}, missing: {Name: missing, Missing: "why"}})
	got := map[string][]string{}
	for _, table := range tables {
		for _, c := range table.Cells {
			got[table.Name] = append(got[table.Name], c.Name)
		}
	}
	both := []string{base, missing}
	want := map[string][]string{"tx-paths-mergeable": both, "sizes": both, "bursts": both, "queues": both, "offloads": both, "rings": both}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
