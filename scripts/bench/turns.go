package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// turns measures contestants side by side. Each has processes of its own; all
// of them stay alive, stopped, and those of one contestant at a time are let run
// for a window. On a shared machine the rates drift by a factor of three from
// one minute to the next; the ratio of two neighbouring windows does not.
type turns struct {
	windows int
	window  time.Duration
}

// starter starts the processes of a contestant, with their sockets and logs in
// dir, lets them settle and stops them.
type starter func(ctx context.Context, dir string) (*pair, error)

// run gives the samples of every contestant, window by window.
func (t turns) run(ctx context.Context, starters ...starter) ([][]sample, error) {
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var pairs []*pair
	for _, start := range starters {
		p, err := start(ctx, dir)
		if err != nil {
			return nil, err
		}
		defer p.kill()
		pairs = append(pairs, p)
	}
	samples := make([][]sample, len(pairs))
	order := make([]int, len(pairs))
	for k := range order {
		order[k] = k
	}
	for range t.windows {
		for _, k := range order {
			s, err := pairs[k].measure(ctx, t.window)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", pairs[k].name, err)
			}
			samples[k] = append(samples[k], s)
		}
		slices.Reverse(order) // nobody is always the second
	}
	return samples, nil
}

// sample is what a contestant did in one window.
type sample struct {
	rate float64 // packets a second
	cpu  float64 // of one processor, what the worker of the pair took
}

func rates(samples []sample) (v []float64) {
	for _, s := range samples {
		v = append(v, s.rate)
	}
	return v
}

func cpus(samples []sample) (v []float64) {
	for _, s := range samples {
		v = append(v, s.cpu)
	}
	return v
}

// ratios are the rates of one contestant to those of another, window by window.
func ratios(of, against []sample) (v []float64) {
	for i := range of {
		if against[i].rate > 0 {
			v = append(v, of[i].rate/against[i].rate)
		}
	}
	return v
}

// comparison is the middle of a line in a table of ratios: the rates of both,
// and the quartiles of the ratio.
func comparison(against, of []sample) string {
	q1, median, q3 := quartiles(ratios(of, against))
	return fmt.Sprintf("%.2f | %.2f | %.2f | **%.2f** | %.2f", medianOf(rates(against))/1e6, medianOf(rates(of))/1e6, q1, median, q3)
}

// bar is a ratio to reach as it stands in a table.
func bar(floor float64) string {
	if floor == 0 {
		return ""
	}
	return fmt.Sprint(floor)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
