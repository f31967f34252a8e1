package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"vionet/bench"
	"vionet/bench/report"
)

// benchParts are the benchmarks that give a report, with their shares of the time, in
// the order in which they run. The cells, which the report begins with, run last: there
// are more of them than time, and what the others did not need is theirs.
var benchParts = []struct {
	name  string
	share float64
	run   func(bench.Settings, context.Context) (report.Report, error)
}{
	{"driver", 0.18, bench.Settings.Driver},
	{"start", 0.02, bench.Settings.Start},
	{"latency", 0.12, bench.Settings.Latency},
	{"guest", 0.18, guestPart},
	{cellsPart, 0.5, bench.Settings.Run},
}

const cellsPart = "cells"

// allCommand measures all that is in the documentation.
func allCommand() *cli.Command {
	return &cli.Command{
		Name:  "all",
		Usage: "measure cells, driver, start, latency and guest into one report",
		Description: "Each part has a share of the limit, and the cells all that is left. What does not fit in, since\n" +
			"windows were disturbed or the machine is slow, is left out, and the report says so.",
		Flags: append(append(windowFlags(), &cli.DurationFlag{Name: "limit", Value: 20 * time.Minute, Usage: "end after `TIME`"}), resultFlags()...),
		Action: func(c *cli.Context) error {
			if c.IsSet("cells") {
				return errors.New("bench all: --cells is for one benchmark: names mean something else in each")
			}
			limit := c.Duration("limit")
			return measured(c, nil, func(s bench.Settings, ctx context.Context) (report.Report, error) {
				return allParts(s, ctx, limit)
			})
		},
	}
}

// allParts runs the parts one after the other. A part that fails is said, and the next
// one follows.
func allParts(s bench.Settings, ctx context.Context, limit time.Duration) (all report.Report, err error) {
	all = report.Report{Date: time.Now(), Machine: report.ThisMachine()}
	left, shares := limit, 1.0
	for _, part := range benchParts {
		// What a part did not need is for the others.
		begin, own := time.Now(), time.Duration(float64(left)*part.share/shares)
		within, cancel := context.WithTimeout(ctx, own)
		r, err := part.run(s, within)
		cancel()
		left, shares = left-time.Since(begin), shares-part.share
		if err != nil {
			s.Warn(fmt.Sprintf("%s: %v", part.name, err))
		}
		if part.name == cellsPart {
			all.Tables = append(r.Tables, all.Tables...)
		} else {
			all.Tables = append(all.Tables, r.Tables...)
		}
		all.Latencies = append(all.Latencies, r.Latencies...)
		all.Interrupted = all.Interrupted || r.Interrupted
		if ctx.Err() != nil {
			break
		}
	}
	if len(all.Tables)+len(all.Latencies) == 0 {
		return all, bench.ErrNothing
	}
	return all, nil
}

// guestPart is what guestCommand measures, in its windows. How far it is says nothing
// of how far all parts are.
func guestPart(s bench.Settings, ctx context.Context) (report.Report, error) {
	s.Windows, s.Window = guestWindows, guestWindow
	whole := s.Progress
	s.Progress = func(p bench.Progress) { whole(bench.Progress{Cell: p.Cell, Finished: p.Finished}) }
	return measureGuest(s, ctx)
}
