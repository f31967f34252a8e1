package report

import (
	"slices"
	"strings"
	"time"
)

// Format is the format of the file that this package writes.
const Format = 1

// Report is one run of a benchmark.
type Report struct {
	Format  int       `json:"format"` // set by WriteJSON
	Date    time.Time `json:"date"`
	Commit  string    `json:"commit,omitempty"` // of vionet
	Command string    `json:"command,omitempty"`
	// Interrupted is true when the run was ended before its last cell.
	Interrupted bool    `json:"interrupted,omitempty"`
	Machine     Machine `json:"machine"`

	Tables    []Table        `json:"tables,omitempty"`    // of rates, costs and sizes
	Latencies []LatencyTable `json:"latencies,omitempty"` // of times
}

// Table is cells that were measured between the same two contestants, in one unit.
type Table struct {
	Name  string `json:"name"`  // one word, as in the command line and in file names
	Title string `json:"title"` // a heading, without a full stop
	Note  string `json:"note,omitempty"`
	Unit  Unit   `json:"unit"`
	Cells []Cell `json:"cells"`

	// Grid gives the table the shape of the published ones; nil is a line a cell.
	Grid *Grid `json:"grid,omitempty"`
	// Drawing is how the table becomes a picture; nil is not at all.
	Drawing *Drawing `json:"drawing,omitempty"`
}

// Unit is what a table counts in.
type Unit string

// The units.
const (
	Mpps         Unit = "Mpps"      // a million packets a second
	Nanoseconds  Unit = "ns/packet" // processor time
	Mebibytes    Unit = "MiB"
	Milliseconds Unit = "ms"
)

// Grid puts cells side by side. For each value of Down there is a group of lines,
// one for each contestant, one for the ratio and one for the published ratio; the
// values of Across are its columns.
type Grid struct {
	Down   Coordinate `json:"down"`
	Across Coordinate `json:"across"`
}

// Drawing is a picture of a table. Each contestant has a series of its own for every
// combination of the coordinates that differ between cells, Across and Panels aside.
type Drawing struct {
	Kind   Kind       `json:"kind"`             // bars or lines
	Across Coordinate `json:"across"`           // the horizontal axis
	Panels Coordinate `json:"panels,omitempty"` // a part of the picture for each value; "": one
}

// Kind is a kind of picture.
type Kind string

// The kinds. Lines want numbers across, which they space evenly.
const (
	Bars  Kind = "bars"
	Lines Kind = "lines"
)

// Cell is one place in the matrix and what two contestants did there.
type Cell struct {
	// Name tells the cell from every other of its table, and selects it in the
	// command line.
	Name string      `json:"name"`
	At   Coordinates `json:"at"`

	// Against is what Of is compared with.
	Against Contestant `json:"against"`
	Of      Contestant `json:"of"`
	// Ratio is Of to Against, of pairs of neighbouring windows.
	Ratio     Quartiles `json:"ratio"`
	Windows   int       `json:"windows,omitempty"`   // that count, of each contestant
	Disturbed int       `json:"disturbed,omitempty"` // that were thrown away and repeated
	// Kept are the windows among Disturbed that count all the same, since the
	// repetitions were disturbed, too.
	Kept int `json:"kept,omitempty"`

	Bar       Bar        `json:"bar,omitzero"`        // to reach
	Published *Published `json:"published,omitempty"` // what others measured; nil: nothing
	// Missing says why there is no measurement, "" when there is one.
	Missing string `json:"missing,omitempty"`
}

// Contestant is one side of a comparison.
type Contestant struct {
	Name  string    `json:"name"`  // as in the table's head
	Value Quartiles `json:"value"` // in the table's unit
	// Cycles a packet, in a table of costs; 0 elsewhere.
	Cycles float64 `json:"cycles,omitempty"`
	// Path is what the driver says it chose, where it says.
	Path string `json:"path,omitempty"`
}

// Bar is what a cell has to reach. Zero fields ask for nothing.
type Bar struct {
	Least float64 `json:"least,omitempty"` // for the median of the ratio
	Most  float64 `json:"most,omitempty"`  // for the same
	Value float64 `json:"value,omitempty"` // at most this for the median of Of, in the table's unit
}

// Published is what was written elsewhere about the same comparison.
type Published struct {
	Against float64 `json:"against"` // in the table's unit
	Of      float64 `json:"of"`
}

// Ratio is Of to Against.
func (p Published) Ratio() float64 { return p.Of / p.Against }

// Measured reports whether any cell has a measurement.
func (r Report) Measured() bool {
	return slices.ContainsFunc(r.Tables, func(t Table) bool { return slices.ContainsFunc(t.Cells, Cell.Measured) }) ||
		slices.ContainsFunc(r.Latencies, func(t LatencyTable) bool { return slices.ContainsFunc(t.Cells, LatencyCell.Measured) })
}

// Reason is an error as Missing has it: its first line. Those behind it are what a
// process said.
func Reason(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// Measured reports whether the cell has a measurement.
func (c Cell) Measured() bool { return c.Missing == "" && c.Windows > 0 }

// Reached reports whether a measured cell has reached its bar.
func (c Cell) Reached() bool {
	b := c.Bar
	return (b.Least == 0 || c.Ratio.Median >= b.Least) &&
		(b.Most == 0 || c.Ratio.Median <= b.Most) &&
		(b.Value == 0 || c.Of.Value.Median <= b.Value)
}
