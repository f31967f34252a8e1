// Package bench measures vionet beside DPDK.
//
// A cell is one place in a matrix of topologies, rings, offloads, frame sizes, queue
// pairs and bursts, and two contestants in it. Both are alive at once, each with
// processes and sockets of its own, and are let run in turn for short windows; what
// counts is the ratio of neighbouring windows. [Settings.Run] measures cells and gives a
// report; [Settings.List] tells the names of the cells that there are.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// Settings say what is measured, and for how long.
type Settings struct {
	Vionet  string         // the vionet binary
	Windows int            // for each contestant in a cell
	Window  time.Duration  // the length of one
	Cells   *regexp.Regexp // selects cells by their names; nil: the chosen set
	Quick   bool           // a smaller chosen set
	Out     io.Writer      // of the benchmarks that print as they go

	// Progress hears how far Run is; nil is for nobody.
	Progress func(Progress)
	// Warn hears what makes the figures worse or cells missing; nil is for nobody.
	Warn func(string)
}

// Progress is how far a run is.
type Progress struct {
	Done, Total int    // windows; no total where it is not known
	Cell        string // the one that is measured, or was measured last
	Finished    bool   // Cell is done
}

func (s Settings) plan() turns.Plan { return turns.Plan{Windows: s.Windows, Window: s.Window} }

func (s Settings) warn(format string, args ...any) {
	if s.Warn != nil {
		s.Warn(fmt.Sprintf(format, args...))
	}
}

// failed warns of a cell that could not be measured, with all that the error says.
func (s Settings) failed(cell string, err error) { s.warn("%s: %v", cell, err) }

// matrix is what the settings select.
func (s Settings) matrix() *matrix {
	switch {
	case s.Cells == nil && s.Quick:
		return chosen().only(quick.MatchString)
	case s.Cells == nil:
		return chosen()
	}
	return all().only(wholly(s.Cells).MatchString)
}

// wholly matches what re does from the first character to the last.
func wholly(re *regexp.Regexp) *regexp.Regexp {
	return regexp.MustCompile(`^(?:` + re.String() + `)$`)
}

// List is the names of the cells that the settings select: those that Cells matches from
// the first character to the last.
func (s Settings) List() []string { return s.matrix().names() }

// ErrNothing is the error of a run that measured nothing at all.
var ErrNothing = errors.New("nothing was measured")

// errNoCell is the error of settings that select nothing.
var errNoCell = errors.New("no cell has such a name: --list shows those that are there")

// unless is ErrNothing where nothing was measured.
func unless(measured bool) error {
	if measured {
		return nil
	}
	return ErrNothing
}

// Run measures the selected cells, one after the other. A cell that can't be measured
// says why in the report, and the next one follows. When ctx ends, the report has the
// cells up to there.
func (s Settings) Run(ctx context.Context) (report.Report, error) {
	return s.runOn(ctx, thisMachine)
}

func (s Settings) runOn(ctx context.Context, m machine) (report.Report, error) {
	r := report.Report{Date: time.Now(), Machine: report.ThisMachine()}
	selected := s.matrix()
	if len(selected.trials) == 0 {
		return r, errNoCell
	}
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	st := &stage{vionet: s.Vionet, dir: dir, players: map[entrant]*player{}, wires: selected.wires()}
	defer st.end(func(entrant) bool { return true })
	restore, lack := st.furnish(m, selected)
	defer restore()
	if lack != nil {
		s.warn("%v", lack)
	} else if others := m.othersAt(st.cores[:], aWhile); others != "" {
		s.warn("%s: expect disturbed windows, or end what runs there", others)
	}
	cells := s.measure(ctx, selected, st, lack)
	r.Interrupted = ctx.Err() != nil
	r.Tables = selected.fill(cells)
	return r, unless(r.Measured())
}

// furnish finds what the stage needs of the machine. Without it no cell can be measured.
func (st *stage) furnish(m machine, selected *matrix) (restore func(), err error) {
	restore = func() {}
	if st.cores, err = m.cores(); err != nil {
		return restore, err
	}
	if err := findDPDK(); err != nil {
		return restore, err
	}
	st.room, restore, err = m.reserve(selected.processes())
	return restore, err
}

// measure gives the cells that were measured, and those that can't be, by their names.
func (s Settings) measure(ctx context.Context, selected *matrix, st *stage, lack error) map[string]report.Cell {
	cells := map[string]report.Cell{}
	p := Progress{Total: selected.windows(s.Windows)}
	for i, t := range selected.trials {
		if ctx.Err() != nil {
			break
		}
		p.Cell, p.Finished = t.comparisons[0].cell.Name, false
		before := p.Done
		plan := s.plan()
		plan.Round = func() {
			// A round that is repeated takes longer, and counts once.
			p.Done = min(p.Done+len(t.entrants), before+s.Windows*len(t.entrants))
			s.tell(p)
		}
		s.tell(p)
		err := lack
		if err == nil {
			err = s.run(ctx, st, t, plan, func(e entrant) bool { return selected.wants(e, i+1) }, cells)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			st.end(func(e entrant) bool { return slices.Contains(t.entrants, e) })
			for _, c := range t.comparisons {
				c.cell.Missing = report.Reason(err)
				cells[c.cell.Name] = c.cell
			}
			if lack == nil {
				s.failed(p.Cell, err)
			}
		}
		p.Done, p.Finished = before+s.Windows*len(t.entrants), true
		s.tell(p)
	}
	return cells
}

// run measures one trial.
func (s Settings) run(ctx context.Context, st *stage, t trial, plan turns.Plan, later func(entrant) bool, cells map[string]report.Cell) error {
	players, err := st.prepare(ctx, t, later)
	if err != nil {
		return err
	}
	var contestants []turns.Contestant[peer.Sample]
	var paths []string
	for _, p := range players {
		contestants = append(contestants, p)
		paths = append(paths, p.paths)
	}
	result, err := turns.Alternate(ctx, plan, contestants...)
	if err != nil {
		return err
	}
	for _, c := range t.comparisons {
		cells[c.cell.Name] = c.outcome(result, t.entrants, paths)
	}
	return nil
}

func (s Settings) tell(p Progress) {
	if s.Progress != nil {
		s.Progress(p)
	}
}
