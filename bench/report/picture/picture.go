// Package picture draws the tables of a report: bars by topology, rates by frame
// size, distributions of latency. It is apart from package report because the
// library that draws is large, and only the command needs it.
//
// The same report gives the same bytes. Pictures have a ground of their own, so that
// they can be read on light and dark pages, and colours that people tell apart who do
// not see all of them.
package picture

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"vionet/bench/report"
)

// Picture is a drawing that is ready to be written.
type Picture struct {
	title  string
	legend []entry
	panels []*plot.Plot
}

// ErrEmpty is the error about a table of which nothing can be drawn: it has no
// measured cell, or no drawing.
var ErrEmpty = errors.New("nothing to draw")

// WriteAll draws each table of a report that can be drawn, into the files NAME.svg
// and NAME.png below dir, which it makes. It gives the SVG files' names by those of
// the tables.
func WriteAll(dir string, r report.Report) (map[string]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	names := map[string]string{}
	write := func(name string, p Picture, err error) error {
		if errors.Is(err, ErrEmpty) {
			return nil
		}
		names[name] = name + ".svg"
		return errors.Join(err,
			toFile(filepath.Join(dir, name+".svg"), p.WriteSVG),
			toFile(filepath.Join(dir, name+".png"), p.WritePNG))
	}
	for _, t := range r.Tables {
		p, err := OfTable(t)
		if err := write(t.Name, p, err); err != nil {
			return nil, err
		}
	}
	for _, t := range r.Latencies {
		p, err := OfLatencies(t)
		if err := write(t.Name, p, err); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// toFile has a file written.
func toFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	return errors.Join(write(out), out.Flush(), f.Close())
}

// WriteSVG writes the picture as SVG, its letters as text.
func (p Picture) WriteSVG(w io.Writer) error {
	width, height := p.size()
	c := vgsvg.New(width, height)
	p.draw(draw.New(c))
	var svg bytes.Buffer
	if _, err := c.WriteTo(&svg); err != nil {
		return err
	}
	_, err := w.Write(bytes.ReplaceAll(svg.Bytes(), []byte(typeface), []byte(alternatives)))
	return err
}

// resolution of PNGs in dots an inch: sharp on a screen that shows two dots for one.
const resolution = 144

// WritePNG writes the picture as PNG.
func (p Picture) WritePNG(w io.Writer) error {
	width, height := p.size()
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(resolution))}
	p.draw(draw.New(c))
	_, err := c.WriteTo(w)
	return err
}

// The measures of a picture.
const (
	pageWidth   = 660 // points
	panelHeight = 240
	margin      = 10
	titleHeight = 22
)

// rows is how many rows of panels there are.
func (p Picture) rows() int { return (len(p.panels) + p.columns() - 1) / p.columns() }

func (p Picture) columns() int { return min(len(p.panels), 2) }

func (p Picture) size() (width, height vg.Length) {
	return pageWidth, 2*margin + titleHeight + p.legendHeight() + panelHeight*vg.Length(p.rows())
}

// draw draws the ground, the title, the legend and the panels, from top to bottom.
func (p Picture) draw(c draw.Canvas) {
	c.SetColor(ground)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	c.FillText(style(13), vg.Point{X: c.Min.X, Y: c.Max.Y}, p.title)
	c.Max.Y -= titleHeight
	p.drawLegend(c)
	c.Max.Y -= p.legendHeight()

	tiles := draw.Tiles{Rows: p.rows(), Cols: p.columns(), PadX: margin, PadY: margin}
	panels := make([][]*plot.Plot, tiles.Rows)
	for row := range panels {
		panels[row] = make([]*plot.Plot, tiles.Cols)
		copy(panels[row], p.panels[row*tiles.Cols:])
	}
	for row, canvases := range plot.Align(panels, tiles, c) {
		for column, canvas := range canvases {
			if panel := panels[row][column]; panel != nil {
				panel.Draw(canvas)
			}
		}
	}
}
