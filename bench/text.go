package bench

import (
	"fmt"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// comparison is the middle of a line in a table of ratios: the rates of both, and the
// quartiles of the ratio.
func comparison(against, of []peer.Sample) string {
	ratio := report.QuartilesOf(turns.Ratios(of, against, peer.Sample.Packets))
	return fmt.Sprintf("%.2f | %.2f | %.2f | **%.2f** | %.2f", turns.Median(against, peer.Sample.Packets)/1e6,
		turns.Median(of, peer.Sample.Packets)/1e6, ratio.Q1, ratio.Median, ratio.Q3)
}

// bar is a ratio to reach as it stands in a table.
func bar(floor float64) string {
	if floor == 0 {
		return ""
	}
	return fmt.Sprint(floor)
}
