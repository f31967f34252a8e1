package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"vionet/bench"
	"vionet/bench/sender"
)

// benchCommand measures vionet beside DPDK.
func benchCommand() *cli.Command {
	return &cli.Command{
		Name:   "bench",
		Usage:  "measure vionet beside DPDK, as ratios of neighbouring windows",
		Flags:  append(windowFlags(), &cli.StringFlag{Name: "tables", Usage: "tables to measure, separated by commas: " + strings.Join(bench.TableNames(), ", ") + " (default: all)"}),
		Action: benchAction(bench.Settings.Compare),
		Subcommands: []*cli.Command{
			benchmark("txqueue", "measure forwarding with and without a transmit buffer, rates and latency", bench.Settings.TxQueue),
			benchmark("zerocopy", "measure sending from the application's own memory, by copying and through the kernel", bench.Settings.ZeroCopy),
			benchmark("sleep", "measure the first frame after a pause, in each poll mode", bench.Settings.Sleep),
			guestCommand(),
			renderCommand(),
			senderCommand(),
		},
	}
}

// windowFlags are those of everything that is measured in windows.
func windowFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "windows", Value: 16, Usage: "windows for each contestant in a cell"},
		&cli.DurationFlag{Name: "window", Value: 250 * time.Millisecond, Usage: "length of a window"},
		&cli.StringFlag{Name: "cells", Value: ".", Usage: "regular expression that selects cells by their names"},
	}
}

func benchmark(name, usage string, run func(bench.Settings, context.Context) error) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, Flags: windowFlags(), Action: benchAction(run)}
}

// benchAction runs a benchmark with what the command line says.
func benchAction(run func(bench.Settings, context.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return fmt.Errorf("bench: no benchmark %q", c.Args().First())
		}
		cells, err := regexp.Compile(c.String("cells"))
		if err != nil {
			return fmt.Errorf("bench: --cells: %w", err)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		s := bench.Settings{Vionet: self, Windows: c.Int("windows"), Window: c.Duration("window"), Cells: cells, Out: c.App.Writer}
		if names := c.String("tables"); names != "" {
			s.Tables = strings.Split(names, ",")
		}
		ctx, stop := untilInterrupted(c.Context)
		defer stop()
		if err := run(s, ctx); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		return nil
	}
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
