package turns

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/bench/report"
)

// number is a sample that is only a number.
type number float64

func (n number) value() float64 { return float64(n) }

// Ratios are those of neighbouring windows, and a window in which the other did
// nothing has none.
func TestRatios(t *testing.T) {
	if got := Ratios([]number{2, 9, 8}, []number{1, 0, 4}, number.value); !slices.Equal(got, []float64{2, 2}) {
		t.Errorf("ratios %v, want 2 and 2", got)
	}
}

// scripted is a contestant whose windows are written down.
type scripted struct {
	name    byte
	windows []any // a number, a Disturbed, or an error
	order   *[]byte
	killed  int
}

func (s *scripted) Measure(context.Context, time.Duration) (number, error) {
	*s.order = append(*s.order, s.name)
	next := s.windows[0]
	s.windows = s.windows[1:]
	switch next := next.(type) {
	case *Disturbed:
		return -1, next
	case error:
		return 0, next
	}
	return number(next.(int)), nil
}

func (s *scripted) Kill() { s.killed++ }

func TestAlternate(t *testing.T) {
	noise := &Disturbed{By: "noise"}
	for _, c := range []struct {
		name  string
		a, b  []any
		order string
		want  Result[number]
	}{
		{"quiet", []any{1, 2}, []any{10, 20}, "abba", Result[number]{Samples: [][]number{{1, 2}, {10, 20}}}},
		{"one window of one of them is disturbed: both are measured again", []any{1, 2, 3}, []any{10, noise, 30}, "abbaab",
			Result[number]{Samples: [][]number{{1, 3}, {10, 30}}, Disturbed: 1}},
		{"always disturbed: what there is counts in the end", []any{noise, noise, noise}, []any{10, 20, 30}, "abbaab",
			Result[number]{Samples: [][]number{{-1, -1}, {10, 20}}, Disturbed: 3, Kept: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var order []byte
			a, b := &scripted{name: 'a', windows: c.a, order: &order}, &scripted{name: 'b', windows: c.b, order: &order}
			rounds := 0
			got, err := Alternate[number](t.Context(), Plan{Windows: 2, Round: func() { rounds++ }}, a, b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if string(order) != c.order || 2*rounds != len(order) {
				t.Errorf("order %s of %d rounds, want %s", order, rounds, c.order)
			}
		})
	}
}

// A cell says how many of its windows were disturbed, and whether some of these count.
func TestFill(t *testing.T) {
	r := Result[number]{Samples: [][]number{{1, 2, 4, 4}, {9, 9, 9, 9}, {1, 4, 12, 16}}, Disturbed: 5, Kept: 1}
	got := report.Cell{Name: "x", Against: report.Contestant{Name: "a"}, Of: report.Contestant{Name: "b"}}
	r.Fill(&got, 0, 2, number.value)
	want := report.Cell{
		Name:    "x",
		Against: report.Contestant{Name: "a", Value: report.Quartiles{Q1: 2, Median: 4, Q3: 4}},
		Of:      report.Contestant{Name: "b", Value: report.Quartiles{Q1: 4, Median: 12, Q3: 16}},
		Ratio:   report.Quartiles{Q1: 2, Median: 3, Q3: 4},
		Windows: 4, Disturbed: 5, Kept: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An error ends the cell, and every contestant that was started.
func TestCompeteEndsWhatItStarted(t *testing.T) {
	died := errors.New("died")
	var order []byte
	a, b := &scripted{windows: []any{1}, order: &order}, &scripted{windows: []any{died}, order: &order}
	starter := func(c *scripted) Starter[number] {
		return func(context.Context, string) (Contestant[number], error) { return c, nil }
	}
	missing := func(context.Context, string) (Contestant[number], error) { return nil, died }
	if _, err := Compete(t.Context(), Plan{Windows: 1}, starter(a), starter(b)); !errors.Is(err, died) {
		t.Errorf("error %v", err)
	}
	if a.killed != 1 || b.killed != 1 {
		t.Errorf("killed %d and %d times, want once each", a.killed, b.killed)
	}
	if _, err := Compete(t.Context(), Plan{Windows: 1}, starter(a), missing); !errors.Is(err, died) {
		t.Errorf("error %v", err)
	}
	if a.killed != 2 {
		t.Error("what was started before the one that could not start was left alone")
	}
}
