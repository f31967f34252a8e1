package picture

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// entry is a series in the legend.
type entry struct {
	name string
	plot.Thumbnailer
}

// The measures of the legend.
const (
	thumbnail = 22
	entryPad  = 16
	lineSpace = 16
	letters   = 9
)

// legendLines are the entries in as many lines as they need.
func (p Picture) legendLines() (lines [][]entry) {
	left := vg.Length(0)
	for _, e := range p.legend {
		width := e.width()
		if left < width {
			lines, left = append(lines, nil), pageWidth-2*margin
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
		left -= width
	}
	return lines
}

func (e entry) width() vg.Length { return thumbnail + style(letters).Width(e.name) + entryPad }

func (p Picture) legendHeight() vg.Length { return lineSpace * vg.Length(len(p.legendLines())) }

// drawLegend draws the legend at the top of c.
func (p Picture) drawLegend(c draw.Canvas) {
	y := c.Max.Y
	for _, line := range p.legendLines() {
		x := c.Min.X
		for _, e := range line {
			sample := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
				Min: vg.Point{X: x, Y: y - letters}, Max: vg.Point{X: x + thumbnail - 5, Y: y},
			}}
			e.Thumbnail(&sample)
			c.FillText(style(letters), vg.Point{X: x + thumbnail, Y: y}, e.name)
			x += e.width()
		}
		y -= lineSpace
	}
}
