package report

import (
	"fmt"
	"strings"
	"time"
)

// origin says where, when and by what the figures were made, in lines.
func (r Report) origin() []string {
	m := r.Machine
	on := m.Hypervisor
	if on == "" {
		on = "hardware"
	}
	machine := []string{m.CPU, fmt.Sprintf("%d processors", m.Processors), "on " + on, "kernel " + m.Kernel, m.Go}
	for _, program := range []struct{ name, version string }{{"DPDK", m.DPDK}, {"QEMU", m.QEMU}} {
		if program.version != "" {
			machine = append(machine, program.name+" "+program.version)
		}
	}
	run := []string{r.Date.UTC().Format("2 January 2006, 15:04 UTC")}
	if r.Commit != "" {
		run = append(run, "commit "+r.Commit)
	}
	if r.Command != "" {
		run = append(run, r.Command)
	}
	lines := []string{strings.Join(machine, ", "), strings.Join(run, ", ")}
	if len(m.Mitigations) > 0 {
		lines = append(lines, "Mitigations: "+strings.Join(m.Mitigations, "; "))
	}
	if r.Interrupted {
		lines = append(lines, "The run ended before all was measured: it was interrupted, or its time was up.")
	}
	return lines
}

// list is items below a title.
type list struct {
	title string
	items []string
}

// summary is what a reader wants to know first and finds last: how many cells
// reached their bar, and which did not.
func (r Report) summary() (lists []list) {
	barred, short, missing := r.Tally()
	if barred > 0 {
		lists = append(lists, list{fmt.Sprintf("%d of %d measured cells that have a bar reached it", barred-len(short), barred), nil})
	}
	if len(short) > 0 {
		lists = append(lists, list{"Fell short", short})
	}
	if len(missing) > 0 {
		lists = append(lists, list{"Not measured", missing})
	}
	return lists
}

// Tally gives how many measured cells have a bar, which of them fell short of it and
// by how much, and which cells have no measurement and why, each in one line.
func (r Report) Tally() (barred int, short, missing []string) {
	for _, t := range r.Tables {
		for _, c := range t.Cells {
			switch {
			case !c.Measured():
				missing = append(missing, t.Name+": "+notMeasured(c.Name, c.Missing))
			case c.Bar != Bar{}:
				barred++
				if !c.Reached() {
					short = append(short, fmt.Sprintf("%s: %s: %s %s to %s, ratio %s, to reach %s", t.Name, c.Name,
						figure(c.Of.Value.Median), t.Unit, figure(c.Against.Value.Median), figure(c.Ratio.Median), c.Bar.words(true, emphasis{})))
				}
			}
		}
	}
	for _, t := range r.Latencies {
		for _, c := range t.Cells {
			switch {
			case !c.Measured():
				missing = append(missing, t.Name+": "+notMeasured(c.Name, c.Missing))
			case c.Most > 0:
				barred++
				if !c.Reached() {
					short = append(short, fmt.Sprintf("%s: %s: median %s to %s µs, 99.9 %% %s to %s µs, to reach ≤ %v", t.Name, c.Name,
						micros(c.Of.Median), micros(c.Against.Median), micros(c.Of.P999), micros(c.Against.P999), c.Most))
				}
			}
		}
	}
	return barred, short, missing
}

// micros is a duration in microseconds.
func micros(d time.Duration) string { return figure(float64(d) / float64(time.Microsecond)) }
