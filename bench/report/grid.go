package report

import (
	"fmt"
	"slices"
	"strings"
)

// gridSheet has the shape of the published tables: groups of lines, and a column for
// each value of another coordinate.
func (t Table) gridSheet(strong emphasis) sheet {
	g := *t.Grid
	same, _ := shared(t.places())
	s := sheet{title: t.Title, notes: paragraphs(t.Note, same), left: 2}
	columns, groups := t.values(g.Across), t.values(g.Down)
	s.head = append([]string{string(g.Down), string(t.Unit)}, columns...)
	for _, group := range groups {
		for _, line := range t.gridLines(group, strong) {
			words := []string{group, line.name}
			for _, column := range columns {
				words = append(words, t.at(group, column, line.word))
			}
			if slices.ContainsFunc(words[2:], func(s string) bool { return s != "" }) {
				s.lines = append(s.lines, words)
			}
		}
	}
	return s
}

// gridLine is one line of a group.
type gridLine struct {
	name string
	word func(Cell) string
}

// gridLines are the lines of a group: both contestants, and their ratio.
func (t Table) gridLines(group string, strong emphasis) []gridLine {
	measured := func(word func(Cell) string) func(Cell) string {
		return func(c Cell) string {
			if !c.Measured() {
				return absent
			}
			return word(c)
		}
	}
	// A group can have contestants of its own.
	var first Cell
	for _, c := range t.Cells {
		if c.At.Plain(t.Grid.Down) == group {
			first = c
			break
		}
	}
	return []gridLine{
		{first.Against.Name, measured(func(c Cell) string { return figure(c.Against.Value.Median) })},
		{first.Of.Name, measured(func(c Cell) string { return figure(c.Of.Value.Median) })},
		{"ratio", measured(func(c Cell) string {
			word := fmt.Sprintf("%s (%s to %s)", strong.on(figure(c.Ratio.Median)), figure(c.Ratio.Q1), figure(c.Ratio.Q3))
			if !c.Reached() {
				word += ", " + c.Bar.words(false, strong)
			}
			return word
		})},
		{"published ratio", Cell.published},
	}
}

// at is a word about the cell at a place in the grid, "" where there is none.
func (t Table) at(group, column string, word func(Cell) string) string {
	var words []string
	for _, c := range t.Cells {
		if c.At.Plain(t.Grid.Down) == group && c.At.Plain(t.Grid.Across) == column {
			words = append(words, word(c))
		}
	}
	return strings.Join(words, " / ")
}

// values are those that the cells have of a coordinate, in their order.
func (t Table) values(of Coordinate) (values []string) {
	for _, c := range t.Cells {
		if v := c.At.Plain(of); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}
