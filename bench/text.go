package bench

import (
	"fmt"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// begin looks whether the machine has what a benchmark needs that prints as it goes, and
// prints what it is. Restore gives back the hugepages.
func (s Settings) begin() (restore func(), err error) {
	if _, err := thisMachine.cores(); err != nil {
		return nil, err
	}
	// Two contestants have two processes each.
	restore, err = dpdkRoom(4)
	if err == nil {
		m := report.ThisMachine()
		s.printf("%s, kernel %s, %s, DPDK %s\n", m.CPU, m.Kernel, m.Go, m.DPDK)
	}
	return restore, err
}

func (s Settings) printf(format string, args ...any) { fmt.Fprintf(s.Out, format, args...) }
func (s Settings) println(line string)               { fmt.Fprintln(s.Out, line) }

// matches reports whether the settings select a cell of such a benchmark.
func (s Settings) matches(name string) bool { return s.Cells == nil || s.Cells.MatchString(name) }

// compared is the middle of a line in a table of ratios: the rates of both, and the
// quartiles of the ratio.
func compared(against, of []peer.Sample) string {
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
