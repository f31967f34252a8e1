package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"vionet/bench/peer"
	"vionet/bench/report"
)

// machineWith is a machine with three processors and some files.
func machineWith(t *testing.T, files map[string]string) machine {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	root := t.TempDir()
	if err := os.CopyFS(root, tree); err != nil {
		t.Fatal(err)
	}
	return machine{root: root, processors: func() []int { return []int{2, 3, 5} }}
}

// withDPDK makes a PATH on which there is a dpdk-testpmd, or none.
func withDPDK(t *testing.T, there bool) {
	t.Helper()
	dir := t.TempDir()
	if there {
		if err := os.WriteFile(filepath.Join(dir, "dpdk-testpmd"), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

// Whatever the machine lacks, every cell says so and how to mend it, and so does a
// warning.
func TestLacks(t *testing.T) {
	enough := map[string]string{hugepages: "512\n", freeHugepages: "512\n"}
	for _, c := range []struct {
		name       string
		dpdk       bool
		files      map[string]string
		processors []int
		want       []string
	}{
		{"no DPDK", false, enough, []int{0, 1}, []string{"dpdk-testpmd is missing", "apt-get install dpdk-dev"}},
		// Four contestants of two processes each at once, and the six pages in use.
		{"no hugepages", true, map[string]string{hugepages: "16\n", freeHugepages: "10\n"}, []int{0, 1},
			[]string{"hugepages are missing", "here are 10", "as root: echo 518 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"}},
		{"one processor", true, enough, []int{1}, []string{"one processor", "taskset"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withDPDK(t, c.dpdk)
			m := machineWith(t, c.files)
			m.processors = func() []int { return c.processors }
			var warnings []string
			s := Settings{Windows: 1, Quick: true, Warn: func(w string) { warnings = append(warnings, w) }}
			r, err := s.runOn(t.Context(), m)
			if !errors.Is(err, ErrNothing) {
				t.Errorf("error %v", err)
			}
			if len(warnings) != 1 {
				t.Errorf("warnings %q, want one", warnings)
			}
			marked := map[string]bool{}
			for _, table := range r.Tables {
				for _, cell := range table.Cells {
					marked[cell.Name] = true
					for _, words := range c.want {
						if !strings.Contains(cell.Missing, words) || !strings.Contains(warnings[0], words) {
							t.Fatalf("%q is not in %q and in %q", words, cell.Missing, warnings[0])
						}
					}
				}
			}
			if all := s.List(); len(marked) != len(all) {
				t.Errorf("%d of %d cells are marked", len(marked), len(all))
			}
		})
	}
}

// Hugepages are raised by what is lacking, and given back. The kernel of the test gives
// none, so that they are given back at once.
func TestReserve(t *testing.T) {
	const each = peer.Memory / pageSize
	m := machineWith(t, map[string]string{hugepages: "300", freeHugepages: "200"})
	room, restore, err := m.reserve(2)
	if room != 200/each || err != nil {
		t.Fatalf("room for %d, %v", room, err)
	}
	if got := m.number(hugepages); got != 300 {
		t.Errorf("%d pages, though there were enough", got)
	}
	restore()
	room, restore, err = m.reserve(4)
	if room != 200/each || err != nil {
		t.Fatalf("room for %d, %v", room, err)
	}
	if got, want := m.number(hugepages), 300+4*each-200; got != want {
		t.Errorf("%d pages are asked for, want %d", got, want)
	}
	restore()
	if got := m.number(hugepages); got != 300 {
		t.Errorf("%d pages are left, there were 300", got)
	}
}

// A trial that needs more than there is room for says how much.
func TestTooManyForTheHugepages(t *testing.T) {
	s := stage{room: 15, players: map[entrant]*player{}}
	m := chosen().only(func(name string) bool { return name == "best/pvp/64B/1q/b32" })
	if _, err := s.prepare(t.Context(), m.trials[0], func(entrant) bool { return true }); err == nil || !strings.Contains(err.Error(), "20 processes at once need 2560 MiB") {
		t.Errorf("error %v", err)
	}
}

// The first two processors that the process may use are for hosts and for guests.
func TestCores(t *testing.T) {
	if got, err := machineWith(t, nil).cores(); got != [2]int{2, 3} || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got := allowed(); len(got) == 0 || !slices.IsSorted(got) {
		t.Errorf("processors %v", got)
	}
}

// Processors that others use are named, with their share.
func TestBusyProcessors(t *testing.T) {
	m := machineWith(t, map[string]string{"proc/stat": "cpu 9 9 9 9 9 9 9 9 9 9\ncpu0 100 0 0 1000 0 0 0 0 0 0\ncpu1 100 0 0 1000 0 0 0 0 0 0\nintr 1\n"})
	wait := func() {
		// Processor 0 worked for 4 ticks of 40, processor 1 for 30 of 40.
		later := "cpu0 103 0 1 1030 6 0 0 0 0 0\ncpu1 110 10 5 1008 2 0 0 5 0 0\n"
		if err := os.WriteFile(filepath.Join(m.root, "proc/stat"), []byte(later), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := m.othersAt([]int{0, 1}, wait), "processor 1 is 75 % busy with other work"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A run that has nothing to measure is an error, not an empty report.
func TestNoSuchCell(t *testing.T) {
	s := Settings{Windows: 1, Cells: regexp.MustCompile("nowhere/.*")}
	for name, run := range map[string]func(context.Context) (report.Report, error){"cells": s.Run, "driver": s.Driver, "latency": s.Latency} {
		if r, err := run(t.Context()); !errors.Is(err, errNoCell) || len(r.Tables)+len(r.Latencies) > 0 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
