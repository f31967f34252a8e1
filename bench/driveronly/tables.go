package driveronly

import (
	"context"
	"fmt"
	"slices"

	"vionet/bench/report"
	"vionet/bench/turns"
)

// cell is two front ends that take turns.
type cell struct {
	report.Cell
	against, of entrant
}

// entrant starts a front end.
type entrant func(ctx context.Context, w Where, dir string) (turns.Contestant[Sample], error)

// Table is a table of costs before it is measured.
type Table struct {
	report report.Table
	cells  []cell
}

// Tables are all that there are.
func Tables() []Table {
	return []Table{paths(), loops(), growth()}
}

// Names are those of the cells.
func (t Table) Names() (names []string) {
	for _, c := range t.cells {
		names = append(names, c.Name)
	}
	return names
}

// DPDK reports whether DPDK's testpmd is needed.
func (t Table) DPDK() bool { return t.report.Name == "driver-paths" }

// Only leaves the cells out whose names are not wanted.
func (t Table) Only(wanted func(name string) bool) Table {
	t.cells = slices.DeleteFunc(slices.Clone(t.cells), func(c cell) bool { return !wanted(c.Name) })
	return t
}

// Measure measures the cells, one after the other. What can't be measured says why, and
// failed hears all of it.
func (t Table) Measure(ctx context.Context, w Where, begun func(cell string), failed func(cell string, err error)) report.Table {
	r := t.report
	least, at := 1.0, ""
	for _, c := range t.cells {
		if ctx.Err() != nil {
			break
		}
		begun(c.Name)
		result, err := turns.Compete(ctx, w.Plan, c.starters(w)...)
		if err != nil {
			c.Missing = report.Reason(err)
			r.Cells = append(r.Cells, c.Cell)
			failed(c.Name, err)
			continue
		}
		result.Fill(&c.Cell, 0, 1, Sample.cost)
		c.Against.Cycles, c.Of.Cycles = c.Against.Value.Median*w.GHz, c.Of.Value.Median*w.GHz
		r.Cells = append(r.Cells, c.Cell)
		for _, samples := range result.Samples {
			if idle := turns.Median(samples, Sample.idle); idle < least {
				least, at = idle, c.Name
			}
		}
	}
	if at != "" && t.DPDK() {
		r.Note += fmt.Sprintf(" The back end had nothing to do for %.0f %% of the time or more (least in %s): %s.", 100*least, at, limit(least))
	}
	return r
}

// limit says what the back end's idle time tells.
func limit(idle float64) string {
	if idle < 0.02 {
		return "there it is the back end that is measured"
	}
	return "it is the front end that is measured"
}

// starters start the two front ends.
func (c cell) starters(w Where) (both []turns.Starter[Sample]) {
	for _, e := range []entrant{c.against, c.of} {
		both = append(both, func(ctx context.Context, dir string) (turns.Contestant[Sample], error) { return e(ctx, w, dir) })
	}
	return both
}
