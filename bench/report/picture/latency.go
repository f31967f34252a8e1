package picture

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"vionet/bench/report"
)

// OfLatencies draws the distributions of a table, a panel for each frame size: how
// long the fastest frames took, up to a share of them that comes ever closer to all.
// Both axes are logarithmic.
func OfLatencies(t report.LatencyTable) (Picture, error) {
	d := distributions{Picture: Picture{title: t.Title}, bySize: map[string]*plot.Plot{}, looks: map[string]look{}}
	for _, c := range t.Cells {
		if c.Measured() {
			d.add(c, c.Against, false)
			d.add(c, c.Of, true)
		}
	}
	if len(d.panels) == 0 {
		return Picture{}, fmt.Errorf("%s: %w", t.Name, ErrEmpty)
	}
	for _, panel := range d.panels {
		logarithmic(panel)
	}
	sameScale(d.panels)
	return d.Picture, nil
}

// distributions are a picture in the making.
type distributions struct {
	Picture
	bySize map[string]*plot.Plot // its panels
	looks  map[string]look       // by the names in the legend
}

// add adds the line of one contestant of a cell.
func (d *distributions) add(c report.LatencyCell, l report.Latency, of bool) {
	if l.Frames == 0 {
		return
	}
	name := distributionName(l, c.Load)
	line, known := d.looks[name]
	if !known {
		line = look{of, d.sameRole(of)}
		d.looks[name] = line
		d.legend = append(d.legend, entry{name, &plotter.Line{LineStyle: line.line()}})
	}
	d.panel(c.At.Value(report.Size)).Add(&plotter.Line{XYs: distribution(l), LineStyle: line.line()})
}

// panel is that of a frame size.
func (d *distributions) panel(size string) *plot.Plot {
	p := d.bySize[size]
	if p == nil {
		p = newPanel(size, "% of the frames that were as fast or faster", "µs")
		d.bySize[size] = p
		d.panels = append(d.panels, p)
	}
	return p
}

// sameRole is how many looks one of the contestants has already.
func (d *distributions) sameRole(of bool) (n int) {
	for _, l := range d.looks {
		if l.of == of {
			n++
		}
	}
	return n
}

func distributionName(l report.Latency, load float64) string {
	if load == 0 {
		return l.Name
	}
	return fmt.Sprintf("%s, %.0f %% load", l.Name, 100*load)
}

// distribution is a line through the times of frames. The horizontal place of a share
// s is 1/(1-s): 99 % stands at 100, and 99.9 % at 1000. The slowest frame of n, beyond
// which there is none, stands where half a frame would.
func distribution(l report.Latency) (points plotter.XYs) {
	add := func(x float64, d time.Duration) {
		points = append(points, plotter.XY{X: x, Y: math.Max(float64(d), 1) / float64(time.Microsecond)})
	}
	if len(l.Histogram) == 0 {
		for _, known := range []struct {
			x float64
			d time.Duration
		}{{2, l.Median}, {1e2, l.P99}, {1e3, l.P999}, {1e4, l.P9999}} {
			add(known.x, known.d)
		}
		return points
	}
	add(1, l.Min)
	var sum uint64
	for _, bucket := range l.Histogram {
		sum += bucket.Frames
		add(1/math.Max(1-float64(sum)/float64(l.Frames), 0.5/float64(l.Frames)), bucket.UpTo)
	}
	return points
}

// logarithmic gives a panel its axes, once it has its lines.
func logarithmic(p *plot.Plot) {
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Min = 1
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
	p.Y.Max = math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	p.X.Tick.Marker = plot.TickerFunc(shares)
	p.Y.Tick.Marker = plot.TickerFunc(decades)
}

// shares are the marks of the horizontal axis: 0, 90, 99, 99.9, …
func shares(_, most float64) (ticks []plot.Tick) {
	labels := []string{"0", "90", "99", "99.9"}
	for x := 1.0; x <= most; x *= 10 {
		i := len(ticks)
		if i == len(labels) {
			labels = append(labels, labels[i-1]+"9")
		}
		ticks = append(ticks, plot.Tick{Value: x, Label: labels[i]})
	}
	return ticks
}

// decades are the marks of the vertical axis, with lesser ones between.
func decades(least, most float64) (ticks []plot.Tick) {
	for y := least; y <= most; y *= 10 {
		ticks = append(ticks, plot.Tick{Value: y, Label: fmt.Sprintf("%v", math.Round(y*1000)/1000)})
		for k := 2.0; k < 10 && k*y < most; k++ {
			ticks = append(ticks, plot.Tick{Value: k * y})
		}
	}
	return slices.Clip(ticks)
}
