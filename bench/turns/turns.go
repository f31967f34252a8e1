// Package turns measures contestants side by side. Each has processes of its own; all
// of them stay alive, stopped, and those of one contestant at a time are let run for a
// window. On a shared machine the rates drift by a factor of three from one minute to
// the next; the ratio of two neighbouring windows does not.
package turns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"vionet/bench/report"
)

// Plan is how often and how long every contestant is let run.
type Plan struct {
	Windows int           // of each contestant
	Window  time.Duration // the length of one
	// Round is called after each round, disturbed or not; nil is for nobody.
	Round func()
}

// Contestant is something that stands still until it is measured. S is what it does
// in a window.
type Contestant[S any] interface {
	// Measure lets the contestant run for a window, and stops it. With a Disturbed
	// error the sample is good, but somebody else had a part in it.
	Measure(ctx context.Context, window time.Duration) (S, error)
	// Kill ends the contestant and gives back what it held.
	Kill()
}

// Starter starts a contestant, with its sockets and logs in dir, lets it settle and
// stops it.
type Starter[S any] func(ctx context.Context, dir string) (Contestant[S], error)

// Disturbed is the error of a window in which something else used a processor of the
// contestant, or slowed it down.
type Disturbed struct{ By string }

func (d *Disturbed) Error() string { return "disturbed by " + d.By }

// Result is what the contestants of a cell did.
type Result[S any] struct {
	Samples   [][]S // of each contestant, those of a round at the same index
	Disturbed int   // rounds that were disturbed and repeated
	// Kept are the rounds among Samples that were disturbed all the same, since the
	// repetitions were, too.
	Kept int
}

// Fill puts what two contestants did into a cell, by their numbers: a value of their
// samples, and its ratio round by round.
func (r Result[S]) Fill(c *report.Cell, against, of int, value func(S) float64) {
	c.Against.Value = report.QuartilesOf(Each(r.Samples[against], value))
	c.Of.Value = report.QuartilesOf(Each(r.Samples[of], value))
	c.Ratio = report.QuartilesOf(Ratios(r.Samples[of], r.Samples[against], value))
	c.Windows, c.Disturbed, c.Kept = len(r.Samples[of]), r.Disturbed, r.Kept
}

// Compete starts the contestants, has them run in turn, and ends them.
func Compete[S any](ctx context.Context, plan Plan, starters ...Starter[S]) (Result[S], error) {
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return Result[S]{}, err
	}
	defer os.RemoveAll(dir)
	var contestants []Contestant[S]
	for _, start := range starters {
		c, err := start(ctx, dir)
		if err != nil {
			return Result[S]{}, err
		}
		defer c.Kill()
		contestants = append(contestants, c)
	}
	return Alternate(ctx, plan, contestants...)
}

// Alternate has contestants run in turn, round by round. A disturbed round is put
// aside and repeated, as often as the plan has windows in all; if that is not enough,
// those that were put aside take the places that are left.
func Alternate[S any](ctx context.Context, plan Plan, contestants ...Contestant[S]) (r Result[S], err error) {
	order := make([]int, len(contestants))
	for k := range order {
		order[k] = k
	}
	var aside [][]S
	var rounds [][]S
	for len(rounds) < plan.Windows && len(aside) <= plan.Windows {
		samples, disturbed, err := round(ctx, plan.Window, contestants, order)
		if err != nil {
			return r, err
		}
		if disturbed {
			aside = append(aside, samples)
		} else {
			rounds = append(rounds, samples)
		}
		if plan.Round != nil {
			plan.Round()
		}
		slices.Reverse(order) // nobody is always the second
	}
	r.Disturbed = len(aside)
	r.Kept = min(plan.Windows-len(rounds), len(aside))
	rounds = append(rounds, aside[:r.Kept]...)
	r.Samples = make([][]S, len(contestants))
	for _, samples := range rounds {
		for k, s := range samples {
			r.Samples[k] = append(r.Samples[k], s)
		}
	}
	return r, nil
}

// round measures every contestant once; the samples are in the order of contestants.
func round[S any](ctx context.Context, window time.Duration, contestants []Contestant[S], order []int) (samples []S, disturbed bool, err error) {
	samples = make([]S, len(contestants))
	for _, k := range order {
		s, err := contestants[k].Measure(ctx, window)
		if by := (*Disturbed)(nil); errors.As(err, &by) {
			disturbed = true
		} else if err != nil {
			return nil, false, err
		}
		samples[k] = s
	}
	return samples, disturbed, nil
}

// Each is one value of every sample.
func Each[S any](samples []S, value func(S) float64) (v []float64) {
	for _, s := range samples {
		v = append(v, value(s))
	}
	return v
}

// Ratios are a value of one contestant to that of another, round by round. A round in
// which the other did nothing has none.
func Ratios[S any](of, against []S, value func(S) float64) (v []float64) {
	for i := range of {
		if base := value(against[i]); base > 0 {
			v = append(v, value(of[i])/base)
		}
	}
	return v
}

// Median is the median of a value of all samples.
func Median[S any](samples []S, value func(S) float64) float64 {
	return report.QuartilesOf(Each(samples, value)).Median
}

// Sleep waits, but no longer than ctx lasts.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case <-time.After(d):
		return nil
	}
}
