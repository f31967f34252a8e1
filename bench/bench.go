// Package bench measures vionet beside DPDK. Both contestants of a cell are alive
// at once, each with processes and sockets of its own, and are let run in turn for
// short windows; what counts is the ratio of neighbouring windows.
package bench

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"vionet/bench/turns"
)

// Settings say what is measured, and for how long.
type Settings struct {
	Vionet  string         // the vionet binary
	Windows int            // for each contestant in a cell
	Window  time.Duration  // the length of one
	Cells   *regexp.Regexp // selects cells by their names
	Tables  []string       // of the comparison with DPDK; empty: all
	Out     io.Writer
}

func (s Settings) plan() turns.Plan { return turns.Plan{Windows: s.Windows, Window: s.Window} }

func (s Settings) printf(format string, args ...any) { fmt.Fprintf(s.Out, format, args...) }
func (s Settings) println(line string)               { fmt.Fprintln(s.Out, line) }

// TableNames are those that Settings.Tables can have.
func TableNames() (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

// Compare prints the tables of vionet and DPDK.
func (s Settings) Compare(ctx context.Context) error {
	for _, name := range s.Tables {
		if !slices.Contains(TableNames(), name) {
			return fmt.Errorf("no table %q: there are %s", name, strings.Join(TableNames(), ", "))
		}
	}
	if err := s.begin(); err != nil {
		return err
	}
	for _, t := range tables {
		if len(s.Tables) == 0 || slices.Contains(s.Tables, t.name) {
			if err := s.print(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin looks whether the machine can be used, and prints what it is.
func (s Settings) begin() error {
	if err := checkMachine(s.Vionet); err != nil {
		return err
	}
	s.println(machine())
	return nil
}

// print measures the selected cells of a table.
func (s Settings) print(ctx context.Context, t table) error {
	s.printf("\n### %s\n\n", t.title)
	s.printf("| topology | rings | %s Mpps | %s Mpps | ratio q1 | ratio median | ratio q3 | to reach |\n", t.against.name, t.of.name)
	s.println("|---|---|---|---|---|---|---|---|")
	for _, c := range t.cells {
		if !s.Cells.MatchString(c.String()) {
			continue
		}
		r, err := turns.Compete(ctx, s.plan(), contest{c, [2]rival{t.against, t.of}, s.Vionet}.starters()...)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		s.printf("| %s | %s | %s | %s |\n", c.topology.name, c.rings, comparison(r.Samples[0], r.Samples[1]), bar(c.floor))
	}
	return nil
}
