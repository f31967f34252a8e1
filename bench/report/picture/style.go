package picture

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The ground, and what stands on it.
var (
	ground = color.RGBA{0xfc, 0xfc, 0xfa, 0xff}
	ink    = color.RGBA{0x26, 0x26, 0x26, 0xff}
	faint  = color.RGBA{0xdd, 0xdd, 0xd8, 0xff}
)

// The shades of both contestants: orange and blue, which stay apart for all eyes.
var (
	oranges = []color.RGBA{{0xd5, 0x5e, 0x00, 0xff}, {0xf0, 0xa8, 0x4a, 0xff}, {0x8a, 0x3d, 0x00, 0xff}, {0xf7, 0xcf, 0x9b, 0xff}}
	blues   = []color.RGBA{{0x00, 0x72, 0xb2, 0xff}, {0x6b, 0xb8, 0xe6, 0xff}, {0x00, 0x3f, 0x66, 0xff}, {0xb5, 0xdb, 0xf2, 0xff}}
)

// dashes tell lines of the same contestant apart, besides their shade.
var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}}

// look is how a series looks.
type look struct {
	of    bool // the contestant that is compared, not that which it is compared with
	shade int  // among the series of the same contestant
}

func (l look) colour() color.Color {
	if l.of {
		return blues[l.shade%len(blues)]
	}
	return oranges[l.shade%len(oranges)]
}

func (l look) line() draw.LineStyle {
	return draw.LineStyle{Color: l.colour(), Width: 1.6, Dashes: dashes[l.shade%len(dashes)]}
}

// typeface is that of all letters. Who does not have it takes another that has letters
// of the same width.
const (
	typeface     = "font-family:Liberation Sans;"
	alternatives = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)

// style is that of letters so many points high.
func style(size vg.Length) text.Style {
	return text.Style{
		Color: ink, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign: draw.XLeft, YAlign: draw.YTop, Handler: plot.DefaultTextHandler,
	}
}

// newPanel is a plot without data in the style of all pictures.
func newPanel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = 6
	for _, s := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		s.Font = font.From(style(0).Font, 9)
		s.Color = ink
	}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = ink, ink
	}
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = faint
	p.Add(grid)
	return p
}
