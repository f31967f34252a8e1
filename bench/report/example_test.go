package report_test

import (
	"os"

	"vionet/bench/report"
)

// A table with one cell, as a terminal shows it.
func ExampleReport_WriteText() {
	r := report.Report{
		Machine: report.Machine{CPU: "Processor 1", Processors: 2, Kernel: "6.1.0", Go: "go1.26"},
		Tables: []report.Table{{
			Name: "front", Title: "Front ends", Unit: report.Mpps,
			Cells: []report.Cell{{
				Name:    "guest-to-host/split/64B",
				At:      report.Coordinates{Topology: "guest-to-host", Ring: "split", Size: 64},
				Against: report.Contestant{Name: "DPDK", Value: report.QuartilesOf([]float64{9, 10, 11})},
				Of:      report.Contestant{Name: "vionet", Value: report.QuartilesOf([]float64{14, 15, 16})},
				Ratio:   report.QuartilesOf([]float64{1.4, 1.5, 1.6}),
				Windows: 3, Bar: report.Bar{Least: 1.5},
			}},
		}},
	}
	r.WriteText(os.Stdout)
	// Output:
	// Processor 1, 2 processors, on hardware, kernel 6.1.0, go1.26
	// 1 January 0001, 00:00 UTC
	//
	// Front ends
	// All cells: Guest->Host, split, 64 B.
	//   cell                     DPDK Mpps  vionet Mpps  ratio q1  median    q3  to reach  windows
	//   guest-to-host/split/64B      10.00        15.00      1.40    1.50  1.60     ≥ 1.5        3
	//
	// 1 of 1 measured cells that have a bar reached it
}
