package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// sheet is a table of words: what text and Markdown have in common.
type sheet struct {
	title string
	// notes stand between the title and the lines, each a paragraph.
	notes []string
	head  []string
	left  int // the first so many columns are words, the others figures
	lines [][]string
}

// absent stands where a figure would.
const absent = "–"

// emphasis marks a figure that counts, and one that fell short. Text has no marks
// for the first.
type emphasis struct{ open, close string }

func (e emphasis) on(s string) string { return e.open + s + e.close }

// sheets are all tables of a report.
func (r Report) sheets(strong emphasis) (all []sheet) {
	for _, t := range r.Tables {
		if t.Grid != nil {
			all = append(all, t.gridSheet(strong))
		} else {
			all = append(all, t.lineSheet(strong))
		}
	}
	for _, t := range r.Latencies {
		all = append(all, t.sheet(strong))
	}
	return all
}

// paragraphs are the notes that are not empty.
func paragraphs(notes ...string) []string {
	return slices.DeleteFunc(notes, func(s string) bool { return s == "" })
}

// shared splits the coordinates of cells into those that all of them have, in words,
// and those that tell them apart.
func shared(cells []Coordinates) (same string, apart []Coordinate) {
	var words []string
	for _, c := range coordinates {
		differs := slices.ContainsFunc(cells, func(at Coordinates) bool { return at.Value(c) != cells[0].Value(c) })
		switch {
		case differs:
			apart = append(apart, c)
		case len(cells) > 0 && cells[0].Value(c) != "":
			words = append(words, cells[0].Value(c))
		}
	}
	if len(words) > 0 {
		same = "All cells: " + strings.Join(words, ", ") + "."
	}
	return same, apart
}

// Words describes a place by some of its coordinates.
func (c Coordinates) Words(of []Coordinate) string {
	var words []string
	for _, coordinate := range of {
		words = append(words, c.Value(coordinate))
	}
	return strings.Join(paragraphs(words...), ", ")
}

// Differing are the coordinates in which the cells of a table are not all alike, in
// the order in which they describe a cell.
func (t Table) Differing() []Coordinate {
	_, apart := shared(t.places())
	return apart
}

func (t Table) places() (all []Coordinates) {
	for _, c := range t.Cells {
		all = append(all, c.At)
	}
	return all
}

// lineSheet has a line for each cell.
func (t Table) lineSheet(strong emphasis) sheet {
	same, apart := shared(t.places())
	against, of, fixed := t.contestants()
	s := sheet{title: t.Title, notes: paragraphs(t.Note, same), left: 1}
	s.head = []string{"cell", fmt.Sprintf("%s %s", against, t.Unit), fmt.Sprintf("%s %s", of, t.Unit), "ratio q1", "median", "q3", "to reach"}
	cycles := slices.ContainsFunc(t.Cells, func(c Cell) bool { return c.Of.Cycles > 0 })
	published := slices.ContainsFunc(t.Cells, func(c Cell) bool { return c.Published != nil })
	if cycles {
		s.head = append(s.head, "cycles")
	}
	if published {
		s.head = append(s.head, "published")
	}
	s.head = append(s.head, "windows")
	for _, c := range t.Cells {
		line := append([]string{cmp.Or(c.At.Words(apart), c.Name)}, c.figures(fixed, strong)...)
		if cycles {
			line = append(line, c.cycles())
		}
		if published {
			line = append(line, c.published())
		}
		s.lines = append(s.lines, append(line, c.windows()))
	}
	return s
}

// contestants are the names at the head of a table; fixed is false when they change
// from cell to cell, which then have to name them.
func (t Table) contestants() (against, of string, fixed bool) {
	for i, c := range t.Cells {
		if i > 0 && (c.Against.Name != against || c.Of.Name != of) {
			return "one", "other", false
		}
		against, of = c.Against.Name, c.Of.Name
	}
	return against, of, true
}

// figures are both values, the ratio and the bar.
func (c Cell) figures(fixed bool, strong emphasis) []string {
	if !c.Measured() {
		return []string{absent, absent, absent, absent, absent, c.Bar.words(true, strong)}
	}
	value := func(who Contestant) string {
		if fixed {
			return figure(who.Value.Median)
		}
		return who.Name + ": " + figure(who.Value.Median)
	}
	return []string{value(c.Against), value(c.Of), figure(c.Ratio.Q1), strong.on(figure(c.Ratio.Median)), figure(c.Ratio.Q3),
		c.Bar.words(c.Reached(), strong)}
}

// words are what is to be reached, and whether it was not.
func (b Bar) words(reached bool, strong emphasis) string {
	var words []string
	if b.Least > 0 {
		words = append(words, fmt.Sprintf("≥ %v", b.Least))
	}
	if b.Most > 0 {
		words = append(words, fmt.Sprintf("≤ %v", b.Most))
	}
	if b.Value > 0 {
		words = append(words, fmt.Sprintf("at most %v", b.Value))
	}
	text := strings.Join(words, ", ")
	if !reached {
		text = strong.on(text + " missed")
	}
	return text
}

func (c Cell) cycles() string {
	if !c.Measured() {
		return absent
	}
	return fmt.Sprintf("%.0f, %.0f", c.Against.Cycles, c.Of.Cycles)
}

func (c Cell) published() string {
	if c.Published == nil {
		return ""
	}
	return figure(c.Published.Ratio())
}

func (c Cell) windows() string {
	if c.Disturbed == 0 {
		return fmt.Sprint(c.Windows)
	}
	words := fmt.Sprintf("%d + %d disturbed", c.Windows-c.Kept, c.Disturbed)
	if c.Kept > 0 {
		words += fmt.Sprintf(", %d of them kept", c.Kept)
	}
	return words
}

// notMeasured says why a cell has no measurement.
func notMeasured(name, why string) string {
	return fmt.Sprintf("%s: not measured: %s", name, cmp.Or(why, "the run ended before"))
}

// figure is a number with two places after the point, three where it is small.
func figure(v float64) string {
	if v != 0 && v < 1 && v > -1 {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
