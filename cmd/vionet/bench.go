package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"vionet/bench"
	"vionet/bench/report"
	"vionet/bench/sender"
)

// benchCommand measures vionet beside DPDK.
func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure vionet beside DPDK, as ratios of neighbouring windows",
		Description: "Both contestants of a cell are alive at once and run in turn for short windows. Cells have\n" +
			"names such as guest-to-host/split/mrg/simple/64B/1q/b32: topology, ring, mergeable receive\n" +
			"buffers, transmit path, bytes of a frame, queue pairs, burst. Without --cells a chosen set is\n" +
			"measured: the published tables, and one coordinate at a time varied about a base.\n" +
			"An interrupt ends the run and prints what there is.",
		Flags: append(append(windowFlags(),
			&cli.BoolFlag{Name: "quick", Usage: "measure a smaller set in shorter windows, in less than two minutes"},
			namesFlag()), resultFlags()...),
		Action: func(c *cli.Context) error { return measured(c, bench.Settings.List, bench.Settings.Run) },
		Subcommands: []*cli.Command{
			allCommand(),
			benchmark("txqueue", "measure forwarding with and without a transmit buffer, rates and latency", bench.Settings.TxQueue),
			benchmark("zerocopy", "measure sending from the application's own memory, by copying and through the kernel", bench.Settings.ZeroCopy),
			benchmark("scrape", "measure sending with and without Prometheus looking on", bench.Settings.Scrape),
			benchmark("sleep", "measure the first frame after a pause, in each poll mode", bench.Settings.Sleep),
			guestCommand(),
			renderCommand(),
			driverCommand(),
			startCommand(),
			latencyCommand(),
			bareThreadCommand(),
			driverBackendCommand(),
			senderCommand(),
		},
	}
}

// The windows of a cell, in a run and in a quick one.
const (
	benchWindows, quickWindows = 8, 4
	benchWindow, quickWindow   = 200 * time.Millisecond, 100 * time.Millisecond
)

// windowFlags are those of everything that is measured in windows.
func windowFlags() []cli.Flag { return windowFlagsFrom(benchWindows, benchWindow) }

// windowFlagsFrom has other windows where nothing is said.
func windowFlagsFrom(windows int, window time.Duration) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "windows", Value: windows, Usage: "windows for each contestant in a cell"},
		&cli.DurationFlag{Name: "window", Value: window, Usage: "length of a window"},
		&cli.StringFlag{Name: "cells", Usage: "measure the cells whose names match `REGEXP`"},
	}
}

// namesFlag is that of everything that has cells to choose from.
func namesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "list", Usage: "print the names of the cells that would be measured"}
}

// measured runs a benchmark that gives a report, and writes it; or lists its cells.
func measured(c *cli.Context, list func(bench.Settings) []string, run func(bench.Settings, context.Context) (report.Report, error)) error {
	s, err := benchSettings(c)
	if err != nil {
		return err
	}
	if c.Bool("list") {
		for _, name := range list(s) {
			fmt.Fprintln(c.App.Writer, name)
		}
		return nil
	}
	shown := newBenchProgress(c.App.ErrWriter)
	s.Progress, s.Warn = shown.progress, shown.warn
	ctx, stop := untilInterrupted(c.Context)
	defer stop()
	r, err := run(s, ctx)
	shown.close()
	if len(r.Tables)+len(r.Latencies) > 0 {
		r.Commit, r.Command = buildCommit(), commandLine(c)
		err = errors.Join(err, writeResults(c, r))
	}
	if ctx.Err() != nil {
		err = errors.Join(err, errors.New("interrupted"))
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// benchSettings are what the flags say that all benchmarks have.
func benchSettings(c *cli.Context) (s bench.Settings, err error) {
	if c.Args().Present() {
		return s, fmt.Errorf("bench: no benchmark %q", c.Args().First())
	}
	s = bench.Settings{Windows: c.Int("windows"), Window: c.Duration("window"), Out: c.App.Writer}
	if s.Windows < 1 || s.Window <= 0 {
		return s, fmt.Errorf("bench: %d windows of %v: at least one is wanted, and a time", s.Windows, s.Window)
	}
	if c.IsSet("cells") {
		if s.Cells, err = regexp.Compile(c.String("cells")); err != nil {
			return s, fmt.Errorf("bench: --cells: %w", err)
		}
	}
	if s.Quick = c.Bool("quick"); s.Quick {
		if !c.IsSet("windows") {
			s.Windows = quickWindows
		}
		if !c.IsSet("window") {
			s.Window = quickWindow
		}
	}
	s.Vionet, err = os.Executable()
	return s, err
}

// benchmark is a subcommand that prints as it goes.
func benchmark(name, usage string, run func(bench.Settings, context.Context) error) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, Flags: windowFlags(), Action: func(c *cli.Context) error {
		s, err := benchSettings(c)
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupted(c.Context)
		defer stop()
		if err := run(s, ctx); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		return nil
	}}
}

// untilInterrupted is a context that ends with the first interrupt.
func untilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
}

// senderCommand is a process of the benchmark zerocopy.
func senderCommand() *cli.Command {
	return &cli.Command{
		Name: sender.Command, Hidden: true,
		Flags: []cli.Flag{&cli.IntFlag{Name: "size", Value: 64, Usage: "bytes of a frame"}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("send: name one way to send")
			}
			ctx, stop := untilInterrupted(c.Context)
			defer stop()
			return sender.Run(ctx, c.Args().First(), c.Int("size"))
		},
	}
}
