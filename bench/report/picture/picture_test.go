package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/plotter"

	"vionet/bench/report"
)

// update writes the files below testdata anew, for a person to look at.
var update = flag.Bool("update", false, "write the files below testdata anew")

// sample is the report of the tests of package report.
func sample(t *testing.T) report.Report {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", "sample.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := report.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every table of the sample that can be drawn is drawn as it was when somebody last
// looked at it, whose PNG is not empty, and in the same way again.
func TestWriteAll(t *testing.T) {
	r := sample(t)
	dir := t.TempDir()
	names, err := WriteAll(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"front": "front.svg", "sizes": "sizes.svg", "latency": "latency.svg"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	again := t.TempDir()
	if _, err := WriteAll(again, r); err != nil {
		t.Fatal(err)
	}
	for name := range names {
		golden(t, dir, name+".svg")
		checkInk(t, filepath.Join(dir, name+".png"))
		for _, kind := range []string{".svg", ".png"} {
			if !bytes.Equal(content(t, dir, name+kind), content(t, again, name+kind)) {
				t.Errorf("%s%s is not the same the second time", name, kind)
			}
		}
	}
}

func content(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden compares an SVG with that below testdata, which it writes when asked to.
func golden(t *testing.T, dir, name string) {
	t.Helper()
	got := content(t, dir, name)
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(content(t, "testdata", name)), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// checkInk wants a picture with all the colours of both contestants.
func checkInk(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	found := map[any]int{}
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			found[m.At(x, y)]++
		}
	}
	of, against := look{of: true}.colour(), look{}.colour()
	if found[of] < 100 || found[against] < 100 {
		t.Errorf("%s: %d and %d dots of the contestants", name, found[of], found[against])
	}
	if m.At(0, 0) != ground {
		t.Errorf("%s: its ground is %v", name, m.At(0, 0))
	}
}

// An SVG has its letters as text: the names of the contestants, units, sizes.
func TestSVGSaysWhatItShows(t *testing.T) {
	for _, c := range []struct {
		table string
		want  []string
	}{
		{"front", []string{"Front ends, on DPDK's vhost", "DPDK", "vionet", "Mpps", "Guest->Host", "Host->Guest", "mergeable", "mergeable off"}},
		{"sizes", []string{"Rate by frame size", "DPDK", "vionet", "Mpps", "frame size, B", "64", "512", "1400"}},
		{"latency", []string{"Latency", "DPDK, 50 % load", "vionet, 90 % load", "µs", "99.9", "99.999", "64 B", "1518 B"}},
	} {
		said := texts(t, content(t, "testdata", c.table+".svg"))
		for _, want := range c.want {
			if !slices.Contains(said, want) {
				t.Errorf("%s: no %q among %q", c.table, want, said)
			}
		}
	}
}

// texts are the contents of all text elements.
func texts(t *testing.T, svg []byte) (all []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "text" {
			var text string
			if err := d.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	drawing := &report.Drawing{Kind: report.Bars, Across: report.Topology}
	for name, table := range map[string]report.Table{
		"no drawing": {Cells: []report.Cell{{Windows: 1}}},
		"no cell":    {Drawing: drawing, Cells: []report.Cell{{Missing: "no DPDK"}}},
	} {
		if _, err := OfTable(table); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := OfLatencies(report.LatencyTable{Cells: []report.LatencyCell{{}}}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no latency: error %v", err)
	}
}

// A share s of the frames stands at 1/(1-s), the slowest of n at 2n.
func TestDistribution(t *testing.T) {
	const µs = time.Microsecond
	for _, c := range []struct {
		name string
		of   report.Latency
		want plotter.XYs
	}{
		{"histogram", report.Latency{Min: 2 * µs, Frames: 100, Histogram: []report.Bucket{{UpTo: 4 * µs, Frames: 50}, {UpTo: 8 * µs, Frames: 40}, {UpTo: 16 * µs, Frames: 10}}},
			plotter.XYs{{X: 1, Y: 2}, {X: 2, Y: 4}, {X: 10, Y: 8}, {X: 200, Y: 16}}},
		{"percentiles", report.Latency{Median: 1 * µs, P99: 2 * µs, P999: 3 * µs, P9999: 4 * µs, Frames: 100},
			plotter.XYs{{X: 2, Y: 1}, {X: 100, Y: 2}, {X: 1000, Y: 3}, {X: 10000, Y: 4}}},
	} {
		got := distribution(c.of)
		for i := range got { // 1/(1-0.9) is not quite ten
			got[i].X = float64(int(got[i].X + 0.5))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
