package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"vionet/bench/guest"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// guestCommand measures in a virtual machine.
func guestCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.IntFlag{Name: "windows", Value: 6, Usage: "windows for each contestant in a cell"},
		&cli.DurationFlag{Name: "window", Value: 200 * time.Millisecond, Usage: "length of a window"},
		&cli.StringFlag{Name: "cells", Value: ".", Usage: "regular expression that selects cells by their names"},
		&cli.BoolFlag{Name: "list", Usage: "print the names of the cells, and measure nothing"},
	}
	return &cli.Command{
		Name: "guest", Usage: "measure both drivers in one virtual machine, in about three minutes",
		Flags: append(flags, outputFlags()...), Action: benchGuest,
	}
}

func benchGuest(c *cli.Context) error {
	cells, err := regexp.Compile(c.String("cells"))
	if err != nil {
		return fmt.Errorf("bench guest: --cells: %w", err)
	}
	if c.Bool("list") {
		for _, name := range guest.Names() {
			fmt.Fprintln(c.App.Writer, name)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := untilInterrupted(c.Context)
	defer stop()
	r := report.New("vionet " + strings.Join(os.Args[1:], " "))
	table, err := guest.Measure(ctx, guest.Settings{
		Vionet: self, Cells: cells,
		Plan: turns.Plan{Windows: c.Int("windows"), Window: c.Duration("window")},
		Tell: func(cell report.Cell, err error) { fmt.Fprintln(c.App.ErrWriter, told(cell, err)) },
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("bench guest: %w", err)
	}
	r.Interrupted = err != nil
	r.Tables = append(r.Tables, table)
	return writeOutputs(c, r)
}

// told is what there is to say about a cell: a line, or an error with its reasons.
func told(c report.Cell, err error) string {
	if err != nil {
		return fmt.Sprintf("%s: %v", c.Name, err)
	}
	return fmt.Sprintf("%s: %.3f to %.3f Mpps, ratio %.2f", c.Name, c.Of.Value.Median, c.Against.Value.Median, c.Ratio.Median)
}
