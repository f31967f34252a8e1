package bench

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

// contestant is what a starter of a benchmark leaves: processes that stand still.
// S is what it does in a window.
type contestant[S any] interface {
	// measure lets the processes run for a window, and stops them.
	measure(ctx context.Context, window time.Duration) (S, error)
	// kill ends the processes.
	kill()
}

// starter starts the processes of a contestant, with their sockets and logs in
// dir, lets them settle and stops them.
type starter[S any] func(ctx context.Context, dir string) (contestant[S], error)

// compete gives the samples of every contestant, window by window.
func compete[S any](ctx context.Context, t turns, starters ...starter[S]) ([][]S, error) {
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var contestants []contestant[S]
	for _, start := range starters {
		c, err := start(ctx, dir)
		if err != nil {
			return nil, err
		}
		defer c.kill()
		contestants = append(contestants, c)
	}
	samples := make([][]S, len(contestants))
	order := make([]int, len(contestants))
	for k := range order {
		order[k] = k
	}
	for range t.windows {
		for _, k := range order {
			s, err := contestants[k].measure(ctx, t.window)
			if err != nil {
				return nil, err
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

func (s sample) packets() float64   { return s.rate }
func (s sample) processor() float64 { return s.cpu }

// each is one value of every sample.
func each[S any](samples []S, value func(S) float64) (v []float64) {
	for _, s := range samples {
		v = append(v, value(s))
	}
	return v
}

// ratios are a value of one contestant to that of another, window by window.
func ratios[S any](of, against []S, value func(S) float64) (v []float64) {
	for i := range of {
		if base := value(against[i]); base > 0 {
			v = append(v, value(of[i])/base)
		}
	}
	return v
}

// comparison is the middle of a line in a table of ratios: the rates of both,
// and the quartiles of the ratio.
func comparison(against, of []sample) string {
	q1, median, q3 := quartiles(ratios(of, against, sample.packets))
	return fmt.Sprintf("%.2f | %.2f | %.2f | **%.2f** | %.2f", medianOf(each(against, sample.packets))/1e6, medianOf(each(of, sample.packets))/1e6, q1, median, q3)
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
