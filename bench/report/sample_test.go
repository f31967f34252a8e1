package report_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/bench/report"
)

// update writes the files below testdata anew, for a person to compare.
var update = flag.Bool("update", false, "write the files below testdata anew")

// sample is a report with one of everything: cells that reach their bar and cells that
// do not, one that was not measured, a published table, costs and latencies.
func sample() report.Report {
	at := func(topology string, mergeable bool) report.Coordinates {
		return report.Coordinates{Topology: topology, Ring: "split", Mergeable: mergeable, Size: 64, Queues: 1, Burst: 32}
	}
	around := func(m float64) report.Quartiles { return report.Quartiles{Q1: 0.75 * m, Median: m, Q3: 1.25 * m} }
	cell := func(name string, at report.Coordinates, against, of float64) report.Cell {
		return report.Cell{
			Name: name, At: at, Windows: 16,
			Against: report.Contestant{Name: "DPDK", Value: around(against)},
			Of:      report.Contestant{Name: "vionet", Value: around(of)},
			Ratio:   around(of / against),
		}
	}
	front := report.Table{
		Name: "front", Title: "Front ends, on DPDK's vhost", Unit: report.Mpps,
		Drawing: &report.Drawing{Kind: report.Bars, Across: report.Topology, Panels: report.Mergeable},
		Cells: []report.Cell{
			cell("guest-to-host/plain", at("guest-to-host", false), 16, 32),
			cell("host-to-guest/plain", at("host-to-guest", false), 20, 21),
			cell("guest-to-host/mrg", at("guest-to-host", true), 8, 0.5),
			{
				Name: "host-to-guest/mrg", At: at("host-to-guest", true), Missing: "dpdk-testpmd ended | killed",
				Against: report.Contestant{Name: "DPDK"}, Of: report.Contestant{Name: "vionet"},
			},
		},
	}
	for i, least := range []float64{1.5, 1.1, 1.5, 1.1} {
		front.Cells[i].Bar.Least = least
	}
	front.Cells[1].Disturbed = 3

	paths := report.Table{
		Name: "paths", Title: "Standard and simple transmit", Note: "As in the published table.", Unit: report.Mpps,
		Grid: &report.Grid{Down: report.Mergeable, Across: report.Topology},
	}
	for _, mergeable := range []bool{false, true} {
		for _, topology := range []string{"pvp", "guest-to-host"} {
			c := cell(topology, at(topology, mergeable), 10, 14)
			c.Against.Name, c.Of.Name = "standard", "simple"
			c.Published = &report.Published{Against: 10, Of: 12.5}
			paths.Cells = append(paths.Cells, c)
		}
	}
	paths.Cells[3].Bar.Least, paths.Cells[3].Published = 1.5, nil

	sizes := report.Table{
		Name: "sizes", Title: "Rate by frame size", Unit: report.Mpps,
		Drawing: &report.Drawing{Kind: report.Lines, Across: report.Size},
	}
	for i, size := range []int{1400, 64, 512} {
		where := at("loopback", true)
		where.Size = size
		sizes.Cells = append(sizes.Cells, cell("size", where, []float64{2, 8, 4}[i], []float64{3, 12, 6}[i]))
	}

	cost := report.Table{Name: "cost", Title: "The driver alone", Unit: report.Nanoseconds}
	for _, path := range []string{"simple", "standard"} {
		c := cell("tx-"+path, report.Coordinates{Tx: path}, 12, 9)
		c.Against.Cycles, c.Of.Cycles = 36, 27
		c.Bar = report.Bar{Most: 1, Value: 8}
		cost.Cells = append(cost.Cells, c)
	}
	cost.Cells[1].Bar.Value = 0

	bucket := func(upTo time.Duration, frames uint64) report.Bucket {
		return report.Bucket{UpTo: upTo, Frames: frames}
	}
	latency := func(name string, median time.Duration) report.Latency {
		return report.Latency{
			Name: name, Min: median / 2, Median: median, P99: 3 * median, P999: 10 * median, P9999: 20 * median, Max: 40 * median, Frames: 100_000, Lost: 2,
			Histogram: []report.Bucket{
				bucket(median/2, 10_000), bucket(median, 45_000), bucket(3*median, 44_000),
				bucket(10*median, 900), bucket(20*median, 90), bucket(40*median, 10),
			},
		}
	}
	waits := report.LatencyTable{
		Name: "latency", Title: "Latency",
		Cells: []report.LatencyCell{
			{
				Name: "64B/50%", At: report.Coordinates{Size: 64}, Load: 0.5, Offered: 500_000, Most: 1,
				Against: latency("DPDK", 12*time.Microsecond), Of: latency("vionet", 10*time.Microsecond), Windows: 8,
			},
			{
				Name: "1518B/90%", At: report.Coordinates{Size: 1518}, Load: 0.9, Offered: 900_000, Most: 1,
				Against: latency("DPDK", 20*time.Microsecond), Of: latency("vionet", 25*time.Microsecond), Windows: 8,
			},
			{Name: "64B/90%", At: report.Coordinates{Size: 64}},
		},
	}
	return report.Report{
		Date: time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC), Commit: "0123456789ab", Command: "vionet bench", Interrupted: true,
		Machine: report.Machine{
			CPU: "Processor 1", Processors: 2, Hypervisor: "kvm", Kernel: "6.1.0", Go: "go1.26.8", DPDK: "22.11.11", QEMU: "7.2.22",
			Hugepages: 272, Mitigations: []string{"meltdown: Mitigation: PTI"},
		},
		Tables:    []report.Table{front, paths, sizes, cost},
		Latencies: []report.LatencyTable{waits},
	}
}

// The forms of the sample are what they were when somebody last looked at them.
func TestForms(t *testing.T) {
	pictures := map[string]string{"front": "bench/front.svg"}
	for name, write := range map[string]func(io.Writer) error{
		"sample.txt":  sample().WriteText,
		"sample.json": sample().WriteJSON,
		"sample.md":   func(w io.Writer) error { return sample().WriteMarkdown(w, pictures) },
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		golden(t, name, got.Bytes())
	}
}

// golden compares with a file below testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
