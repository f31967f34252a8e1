package report_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"vionet/bench/report"
)

func TestQuartilesOf(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want report.Quartiles
	}{
		{nil, report.Quartiles{}},
		{[]float64{7}, report.Quartiles{Q1: 7, Median: 7, Q3: 7}},
		{[]float64{5, 1, 4, 2, 3}, report.Quartiles{Q1: 2, Median: 3, Q3: 4}},
		{[]float64{8, 7, 6, 5, 4, 3, 2, 1}, report.Quartiles{Q1: 3, Median: 5, Q3: 7}},
	} {
		before := slices.Clone(c.v)
		if got := report.QuartilesOf(c.v); got != c.want {
			t.Errorf("quartiles of %v are %v, want %v", before, got, c.want)
		}
		if !slices.Equal(before, c.v) {
			t.Errorf("%v was changed to %v", before, c.v)
		}
	}
}

// What is written is what is read.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := sample()
		want.Commit = rapid.String().Draw(t, "commit")
		want.Tables[0].Cells[0].Of.Value.Median = rapid.Float64Range(-1e12, 1e12).Draw(t, "median")
		want.Tables[0].Cells[0].At.Mergeable = rapid.Bool().Draw(t, "mergeable")
		want.Latencies[0].Cells[0].Of.Max = time.Duration(rapid.Int64().Draw(t, "max"))
		var file bytes.Buffer
		if err := want.WriteJSON(&file); err != nil {
			t.Fatal(err)
		}
		got, err := report.Read(&file)
		if err != nil {
			t.Fatal(err)
		}
		want.Format = report.Format
		want.Commit = strings.ToValidUTF8(want.Commit, "\ufffd")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", `{"format": 2}`, `{"format": 1`} {
		if _, err := report.Read(strings.NewReader(text)); !errors.Is(err, report.ErrFormat) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// Every kind of bar is reached at its value, and missed just beyond.
func TestReached(t *testing.T) {
	at := func(ratio, of float64, bar report.Bar) report.Cell {
		return report.Cell{Of: report.Contestant{Value: report.Quartiles{Median: of}}, Ratio: report.Quartiles{Median: ratio}, Bar: bar}
	}
	for _, c := range []struct {
		cell report.Cell
		want bool
	}{
		{at(0, 0, report.Bar{}), true},
		{at(1.1, 0, report.Bar{Least: 1.1}), true},
		{at(1.09, 0, report.Bar{Least: 1.1}), false},
		{at(1, 0, report.Bar{Most: 1}), true},
		{at(1.01, 0, report.Bar{Most: 1}), false},
		{at(1, 8, report.Bar{Value: 8}), true},
		{at(1, 8.1, report.Bar{Value: 8}), false},
		{at(0.5, 8.1, report.Bar{Most: 1, Value: 8}), false},
	} {
		if got := c.cell.Reached(); got != c.want {
			t.Errorf("ratio %v, value %v, bar %+v: reached %v", c.cell.Ratio.Median, c.cell.Of.Value.Median, c.cell.Bar, got)
		}
	}
}

// A latency has to hold its bar at the median and at 99.9 %.
func TestLatencyReached(t *testing.T) {
	of := func(median, late time.Duration) report.Latency { return report.Latency{Median: median, P999: late} }
	for _, c := range []struct {
		most float64
		of   report.Latency
		want bool
	}{
		{0, of(99, 99), true},
		{1, of(10, 100), true},
		{1, of(11, 100), false},
		{1, of(10, 101), false},
		{1.05, of(10, 105), true},
	} {
		cell := report.LatencyCell{Most: c.most, Against: of(10, 100), Of: c.of}
		if got := cell.Reached(); got != c.want {
			t.Errorf("%v at most %v: reached %v", c.of, c.most, got)
		}
	}
}

// A report with one measured cell, of whatever kind, is not empty.
func TestMeasured(t *testing.T) {
	missing := report.Report{
		Tables:    []report.Table{{Cells: []report.Cell{{Windows: 1, Missing: "why"}, {}}}},
		Latencies: []report.LatencyTable{{Cells: []report.LatencyCell{{Missing: "why", Of: report.Latency{Frames: 1}}, {}}}},
	}
	if missing.Measured() || (report.Report{}).Measured() {
		t.Error("a report without a measurement has one")
	}
	rate, latency := missing, missing
	rate.Tables = append(rate.Tables, report.Table{Cells: []report.Cell{{}, {Windows: 1}}})
	latency.Latencies = append(latency.Latencies, report.LatencyTable{Cells: []report.LatencyCell{{Of: report.Latency{Frames: 1}}}})
	if !rate.Measured() || !latency.Measured() {
		t.Errorf("rates are measured: %v, latencies: %v", rate.Measured(), latency.Measured())
	}
}

// The summary has one line for what is missing, whatever else an error says.
func TestReason(t *testing.T) {
	if got := report.Reason(errors.New("vionet ended (exit status 1)\nit printed:\nno room")); got != "vionet ended (exit status 1)" {
		t.Errorf("%q", got)
	}
}

func TestTally(t *testing.T) {
	barred, short, missing := sample().Tally()
	if barred != 8 {
		t.Errorf("%d cells have a bar, want 8", barred)
	}
	wantShort := []string{
		"front: host-to-guest/plain: 21.00 Mpps to 20.00, ratio 1.05, to reach ≥ 1.1",
		"front: guest-to-host/mrg: 0.500 Mpps to 8.00, ratio 0.062, to reach ≥ 1.5",
		"paths: guest-to-host: 14.00 Mpps to 10.00, ratio 1.40, to reach ≥ 1.5",
		"cost: tx-simple: 9.00 ns/packet to 12.00, ratio 0.750, to reach ≤ 1, at most 8",
		"latency: 1518B/90%: median 25.00 to 20.00 µs, 99.9 % 250.00 to 200.00 µs, to reach ≤ 1",
	}
	if diff := cmp.Diff(wantShort, short); diff != "" {
		t.Errorf("short (-want +got):\n%s", diff)
	}
	wantMissing := []string{
		"front: host-to-guest/mrg: not measured: dpdk-testpmd ended | killed",
		"latency: 64B/90%: not measured: the run ended before",
	}
	if diff := cmp.Diff(wantMissing, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestSplice(t *testing.T) {
	const begin, end = report.BeginMark, report.EndMark
	for _, c := range []struct {
		name, page, want string
		err              error
	}{
		{"replaced", "a\n" + begin + "\nold\n" + end + "\nb\n", "a\n" + begin + "\n\nnew\n\n" + end + "\nb\n", nil},
		{"nothing between", begin + end, begin + "\n\nnew\n\n" + end, nil},
		{"no mark", "a\n", "", report.ErrMarks},
		{"one mark", "a\n" + begin, "", report.ErrMarks},
		{"twice", begin + end + begin + end, "", report.ErrMarks},
		{"in disorder", end + begin, "", report.ErrMarks},
	} {
		got, err := report.Splice(c.page, "\nnew\n")
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// To splice the same section again changes nothing.
func TestSpliceIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringMatching(`[a-z|# \n]{0,20}`)
		page := line.Draw(t, "before") + report.BeginMark + line.Draw(t, "old") + report.EndMark + line.Draw(t, "after")
		section := line.Draw(t, "section")
		once, err := report.Splice(page, section)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := report.Splice(once, section); err != nil || twice != once {
			t.Fatalf("%q became %q, %v", once, twice, err)
		}
	})
}
