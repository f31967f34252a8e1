package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"vionet/bench/report"
	"vionet/bench/turns"
)

// latencySizes are the frame sizes of the published table, in bytes with the
// check sequence of four bytes that no virtio device sees.
var latencySizes = []int{512, 1024, 1280, 1518}

// frameCheck is the length of that sequence.
const frameCheck = 4

// latencyRates are frames a second: far below what the switch can do, and a
// good part of it.
var latencyRates = []int{100_000, 500_000}

// latencyFlows is how many flows the stamped frames belong to.
const latencyFlows = 100

// latencyCeiling is what the average may be to that without a buffer.
const latencyCeiling = 1.05

// latencyTopologies are those of the published table.
var latencyTopologies = []struct {
	name  string
	start func(ctx context.Context, c switching, dir string, b buffering, size, rate int) (*probe, error)
}{
	{"P2P", probeWires},
	{"PV", probeGuest},
}

// latencies prints how long frames are on their way through the switch.
func (s Settings) latencies(ctx context.Context) error {
	s.printf("\n### Latency with a transmit buffer, µs\n\n")
	s.println("| topology | size | frames/s | buffer | min | average | 99.9 % | max | lost | average to off | 99.9 % to off | to reach |")
	s.println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range latencyTopologies {
		for _, size := range latencySizes {
			for _, rate := range latencyRates {
				cell := fmt.Sprintf("latency: %s, %d B, %d/s", t.name, size, rate)
				if !s.matches(cell) {
					continue
				}
				var starters []turns.Starter[delays]
				for _, b := range latencyBufferings {
					starters = append(starters, func(ctx context.Context, dir string) (turns.Contestant[delays], error) {
						return t.start(ctx, switching{vionet: s.Vionet}, dir, b, size-frameCheck, rate)
					})
				}
				r, err := turns.Compete(ctx, s.plan(), starters...)
				if err != nil {
					return fmt.Errorf("%s: %w", cell, err)
				}
				for i, b := range latencyBufferings {
					s.printDelays(fmt.Sprintf("%s | %d B | %d k | %s", t.name, size, rate/1000, b.name), r.Samples[i], r.Samples[0], b)
				}
			}
		}
	}
	return nil
}

// latencyBufferings are the rates' and, for what it costs, a buffer whose packets
// wait for others beyond the turn of the poll loop.
var latencyBufferings = append(bufferings[:], buffering{"on-drain-100", "set txbuffer 32 drain 100"})

func (s Settings) printDelays(head string, of, off []delays, b buffering) {
	line := []string{head}
	sum := overall(of)
	for _, d := range []time.Duration{sum.least, sum.average, sum.late, sum.most} {
		line = append(line, fmt.Sprintf("%.1f", float64(d)/1e3))
	}
	line = append(line, fmt.Sprint(sum.lost))
	if b == bufferings[0] {
		line = append(line, "", "", "")
	} else {
		line = append(line, fmt.Sprintf("**%.2f**", report.QuartilesOf(turns.Ratios(of, off, delays.mean)).Median),
			fmt.Sprintf("%.2f", report.QuartilesOf(turns.Ratios(of, off, delays.tail)).Median), fmt.Sprintf("at most %v, 1", latencyCeiling))
	}
	s.printf("| %s |\n", strings.Join(line, " | "))
}
