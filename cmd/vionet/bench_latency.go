package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"vionet/bench"
	"vionet/bench/report"
)

// latencyCommand measures how long frames are on their way.
func latencyCommand() *cli.Command {
	return &cli.Command{
		Name:  "latency",
		Usage: "measure how long frames are on their way through a guest and back",
		Description: "The host stamps frames, the guest returns them, at 10, 50 and 90 per cent of the rate without\n" +
			"loss. Cells have names such as latency/512B/50%. With --soak one cell is measured for a long time,\n" +
			"and the pauses in it are told apart.",
		Flags: append(append(windowFlags(),
			namesFlag(),
			&cli.DurationFlag{Name: "soak", Usage: "measure 64 B at 50 per cent for `TIME`, as 10m, and what the pauses are"}), resultFlags()...),
		Action: func(c *cli.Context) error {
			run := bench.Settings.Latency
			if d := c.Duration("soak"); d > 0 {
				run = func(s bench.Settings, ctx context.Context) (report.Report, error) { return s.Soak(ctx, d) }
			}
			return measured(c, bench.Settings.ListLatency, run)
		},
	}
}

// bareThreadCommand is a process of latencyCommand.
func bareThreadCommand() *cli.Command {
	return &cli.Command{
		Name: bench.BareCommand, Hidden: true,
		Flags: []cli.Flag{&cli.DurationFlag{Name: "for", Value: time.Second}},
		Action: func(c *cli.Context) error {
			count, longest := bench.BareThread(c.Duration("for"))
			fmt.Fprintln(c.App.Writer, count, int64(longest))
			return nil
		},
	}
}
