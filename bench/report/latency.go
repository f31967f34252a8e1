package report

import (
	"cmp"
	"fmt"
	"time"
)

// LatencyTable is how long frames were on their way, in two contestants.
type LatencyTable struct {
	Name  string        `json:"name"`
	Title string        `json:"title"`
	Note  string        `json:"note,omitempty"`
	Cells []LatencyCell `json:"cells"`
}

// LatencyCell is one load of one configuration.
type LatencyCell struct {
	Name string      `json:"name"` // as that of a Cell
	At   Coordinates `json:"at"`   // where it is in the matrix
	// Load is the share of the rate without loss that was offered, 0 to 1, and
	// Offered is that in packets a second.
	Load    float64 `json:"load,omitempty"`
	Offered float64 `json:"offered,omitempty"`

	Against Latency `json:"against"` // the zero value where there is only one
	Of      Latency `json:"of"`
	// Most is what the median and the 99.9th percentile of Of may be at most, as
	// multiples of those of Against; 0 asks for nothing.
	Most float64 `json:"most,omitempty"`

	Windows   int    `json:"windows,omitempty"`   // of each contestant
	Disturbed int    `json:"disturbed,omitempty"` // that were thrown away and repeated
	Missing   string `json:"missing,omitempty"`   // why there is no measurement
}

// Latency is a distribution of times, in nanoseconds.
type Latency struct {
	Name string `json:"name"` // of the contestant
	// The least, the greatest, and percentiles between them.
	Min    time.Duration `json:"min"`
	Median time.Duration `json:"median"`
	P99    time.Duration `json:"p99"`
	P999   time.Duration `json:"p99.9"`
	P9999  time.Duration `json:"p99.99"`
	Max    time.Duration `json:"max"`
	Frames uint64        `json:"frames"` // that came back
	Lost   uint64        `json:"lost"`
	// Histogram is all of it, in ascending order.
	Histogram []Bucket `json:"histogram,omitempty"`
}

// Bucket is the frames that took longer than the bucket before says, and at most UpTo.
type Bucket struct {
	UpTo   time.Duration `json:"up_to"`
	Frames uint64        `json:"frames"`
}

// Measured reports whether the cell has a measurement.
func (c LatencyCell) Measured() bool { return c.Missing == "" && c.Of.Frames > 0 }

// Reached reports whether a measured cell has reached its bar.
func (c LatencyCell) Reached() bool {
	if c.Most == 0 {
		return true
	}
	within := func(of, against time.Duration) bool { return float64(of) <= c.Most*float64(against) }
	return within(c.Of.Median, c.Against.Median) && within(c.Of.P999, c.Against.P999)
}

// sheet has a line for each contestant of a cell.
func (t LatencyTable) sheet(strong emphasis) sheet {
	var places []Coordinates
	for _, c := range t.Cells {
		places = append(places, c.At)
	}
	same, apart := shared(places)
	s := sheet{title: t.Title, notes: paragraphs(t.Note, "Times in µs.", same), left: 2}
	s.head = []string{"cell", "contestant", "load", "frames/s", "min", "median", "99 %", "99.9 %", "99.99 %", "max", "lost", "to reach"}
	for _, c := range t.Cells {
		if !c.Measured() {
			continue // the summary says why
		}
		name := cmp.Or(c.At.Words(apart), c.Name)
		if c.Against.Frames > 0 {
			s.lines = append(s.lines, c.line(name, c.Against, ""))
		}
		s.lines = append(s.lines, c.line(name, c.Of, Bar{Most: c.Most}.words(c.Reached(), strong)))
	}
	return s
}

func (c LatencyCell) line(name string, l Latency, bar string) []string {
	line := []string{name, l.Name, "", ""}
	if c.Load > 0 {
		line[2] = fmt.Sprintf("%.0f %%", 100*c.Load)
	}
	if c.Offered > 0 {
		line[3] = fmt.Sprintf("%.0f", c.Offered)
	}
	for _, d := range []time.Duration{l.Min, l.Median, l.P99, l.P999, l.P9999, l.Max} {
		line = append(line, micros(d))
	}
	return append(line, fmt.Sprint(l.Lost), bar)
}
