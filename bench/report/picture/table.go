package picture

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"vionet/bench/report"
)

// series is what one contestant did in cells that differ only across and by panel.
type series struct {
	name string
	look
	spots map[spot]report.Quartiles
}

// spot is a place in a picture.
type spot struct{ panel, across string }

// chart is a table as it is drawn.
type chart struct {
	report.Table
	across, panels []string // in their order
	series         []series
}

// OfTable draws a table as its Drawing says.
func OfTable(t report.Table) (Picture, error) {
	if t.Drawing == nil {
		return Picture{}, fmt.Errorf("%s: %w", t.Name, ErrEmpty)
	}
	t.Cells = slices.DeleteFunc(slices.Clone(t.Cells), func(c report.Cell) bool { return !c.Measured() })
	if len(t.Cells) == 0 {
		return Picture{}, fmt.Errorf("%s: %w", t.Name, ErrEmpty)
	}
	if t.Drawing.Kind == report.Lines {
		slices.SortStableFunc(t.Cells, func(a, b report.Cell) int {
			return cmp.Compare(a.At.Number(t.Drawing.Across), b.At.Number(t.Drawing.Across))
		})
	}
	c := newChart(t)
	p := Picture{title: t.Title}
	for _, name := range c.panels {
		panel := newPanel(name, "", string(t.Unit))
		panel.NominalX(c.across...)
		panel.Y.Min = 0
		if t.Drawing.Kind != report.Bars {
			panel.X.Label.Text = axisTitle(t.Drawing.Across)
		}
		legend, err := c.fill(panel, name)
		if err != nil {
			return Picture{}, fmt.Errorf("%s: %w", t.Name, err)
		}
		p.legend = legend
		p.panels = append(p.panels, panel)
	}
	sameScale(p.panels)
	return p, nil
}

// axisTitle names a coordinate and its unit.
func axisTitle(c report.Coordinate) string {
	if c == report.Size {
		return "frame size, B"
	}
	return string(c)
}

// sameScale gives all panels a vertical axis that serves for each.
func sameScale(panels []*plot.Plot) {
	least, most := panels[0].Y.Min, panels[0].Y.Max
	for _, p := range panels {
		least, most = min(least, p.Y.Min), max(most, p.Y.Max)
	}
	for _, p := range panels {
		p.Y.Min, p.Y.Max = least, most
	}
}

// newChart sorts the cells of a table into series.
func newChart(t report.Table) chart {
	c := chart{Table: t}
	rest := slices.DeleteFunc(t.Differing(), func(x report.Coordinate) bool { return x == t.Drawing.Across || x == t.Drawing.Panels })
	for _, cell := range t.Cells {
		at := spot{across: cell.At.Plain(t.Drawing.Across)}
		if t.Drawing.Panels != "" {
			at.panel = panelTitle(cell.At, t.Drawing.Panels)
		}
		c.across = withValue(c.across, at.across)
		c.panels = withValue(c.panels, at.panel)
		words := cell.At.Words(rest)
		c.add(cell.Against, false, words, at)
		c.add(cell.Of, true, words, at)
	}
	return c
}

// panelTitle is a coordinate in words that stand alone.
func panelTitle(at report.Coordinates, c report.Coordinate) string {
	if value := at.Value(c); value != "" {
		return value
	}
	return fmt.Sprintf("%s %s", c, at.Plain(c))
}

func withValue(values []string, v string) []string {
	if slices.Contains(values, v) {
		return values
	}
	return append(values, v)
}

// add puts one measurement into its series.
func (c *chart) add(who report.Contestant, of bool, words string, at spot) {
	name := who.Name
	if words != "" {
		name = strings.Join([]string{name, words}, ", ")
	}
	shade := 0
	for _, s := range c.series {
		if s.name == name && s.of == of {
			s.spots[at] = who.Value
			return
		}
		if s.of == of {
			shade++
		}
	}
	c.series = append(c.series, series{name, look{of, shade}, map[spot]report.Quartiles{at: who.Value}})
}

// fill adds all series to a panel.
func (c chart) fill(p *plot.Plot, panel string) (legend []entry, err error) {
	add := c.addLine
	if c.Drawing.Kind == report.Bars {
		add = c.addBars
	}
	for i, s := range c.series {
		sample, err := add(p, panel, i, s)
		if err != nil {
			return nil, err
		}
		legend = append(legend, entry{s.name, sample})
	}
	return legend, nil
}

// middles are medians with the quartiles about them, in data coordinates.
type middles struct {
	plotter.XYs
	plotter.YErrors
}

func (m *middles) add(x float64, q report.Quartiles) {
	m.XYs = append(m.XYs, plotter.XY{X: x, Y: q.Median})
	m.YErrors = append(m.YErrors, struct{ Low, High float64 }{q.Median - q.Q1, q.Q3 - q.Median})
}

// whiskers adds the error bars.
func (m middles) whiskers(p *plot.Plot, in color.Color) error {
	if len(m.XYs) == 0 {
		return nil
	}
	bars, err := plotter.NewYErrorBars(m)
	if err != nil {
		return err
	}
	bars.LineStyle, bars.CapWidth = draw.LineStyle{Color: in, Width: 0.8}, 4
	p.Add(bars)
	return nil
}

// barsShare is the part of the place across that bars fill.
const barsShare = 0.8

// addBars adds the bars of series number i, beside those of the others.
func (c chart) addBars(p *plot.Plot, panel string, i int, s series) (plot.Thumbnailer, error) {
	width := barsShare / float64(len(c.series))
	left := -barsShare/2 + width*float64(i)
	var tops middles
	var corners []plotter.XYer
	for k, across := range c.across {
		q, measured := s.spots[spot{panel, across}]
		if !measured {
			continue
		}
		x := float64(k) + left
		corners = append(corners, plotter.XYs{{X: x, Y: 0}, {X: x, Y: q.Median}, {X: x + width, Y: q.Median}, {X: x + width, Y: 0}})
		tops.add(x+width/2, q)
	}
	bars, err := plotter.NewPolygon(corners...)
	if err != nil {
		return nil, err
	}
	bars.Color = s.colour()
	bars.LineStyle.Width = 0
	if len(corners) > 0 {
		p.Add(bars)
	}
	// All places have the same width, also where the last has no bar.
	p.X.Min, p.X.Max = -0.5, float64(len(c.across))-0.5
	return bars, tops.whiskers(p, ink)
}

// addLine adds a line through the medians.
func (c chart) addLine(p *plot.Plot, panel string, _ int, s series) (plot.Thumbnailer, error) {
	var points middles
	for k, across := range c.across {
		if q, measured := s.spots[spot{panel, across}]; measured {
			points.add(float64(k), q)
		}
	}
	line := &plotter.Line{XYs: points.XYs, LineStyle: s.line()}
	if len(points.XYs) > 0 {
		p.Add(line)
	}
	return line, points.whiskers(p, s.colour())
}
