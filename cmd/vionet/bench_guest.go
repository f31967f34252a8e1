package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/urfave/cli/v2"

	"vionet/bench"
	"vionet/bench/guest"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// The windows of a cell in a guest. To start and to stop forwarding there takes longer
// than a window.
const guestWindows, guestWindow = 4, 150 * time.Millisecond

// guestCommand measures in a virtual machine.
func guestCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.IntFlag{Name: "windows", Value: guestWindows, Usage: "windows for each contestant in a cell"},
		&cli.DurationFlag{Name: "window", Value: guestWindow, Usage: "length of a window"},
		&cli.StringFlag{Name: "cells", Usage: "measure the cells whose names match `REGEXP`"},
		&cli.BoolFlag{Name: "list", Usage: "print the names of the cells that would be measured"},
	}
	return &cli.Command{
		Name: "guest", Usage: "measure both drivers in one virtual machine, in about four minutes",
		Description: "Each driver has a function of its own in the same guest, bound to vfio-pci. Cells have names such\n" +
			"as guest/qemu/iommu/split/loopback/64B: the host (DPDK's vhost, or QEMU's own device), whether an\n" +
			"IOMMU translates addresses, ring, topology, bytes of a frame. With KVM where a guest boots with it,\n" +
			"otherwise the processor is emulated. Run it in the source tree: it builds the guest's init.",
		Flags: append(flags, resultFlags()...), Action: benchGuest,
	}
}

func benchGuest(c *cli.Context) error {
	cells, err := regexp.Compile(c.String("cells"))
	if err != nil {
		return fmt.Errorf("bench guest: --cells: %w", err)
	}
	s := guest.Settings{Cells: cells, Plan: turns.Plan{Windows: c.Int("windows"), Window: c.Duration("window")}}
	if c.Bool("list") {
		for _, name := range s.List() {
			fmt.Fprintln(c.App.Writer, name)
		}
		return nil
	}
	if s.Vionet, err = os.Executable(); err != nil {
		return err
	}
	shown := newBenchProgress(c.App.ErrWriter)
	s.Tell = func(done, total int, cell report.Cell, err error) {
		if err != nil {
			shown.warn(fmt.Sprintf("%s: %v", cell.Name, err))
		}
		shown.progress(bench.Progress{Done: done * s.Plan.Windows, Total: total * s.Plan.Windows, Cell: cell.Name, Finished: true})
	}
	ctx, stop := untilInterrupted(c.Context)
	defer stop()
	r := report.Report{Date: time.Now(), Machine: report.ThisMachine(), Commit: buildCommit(), Command: commandLine(c)}
	r.Tables, err = guest.Measure(ctx, s)
	shown.close()
	r.Interrupted = ctx.Err() != nil
	if len(r.Tables) > 0 {
		err = errors.Join(err, writeResults(c, r))
	}
	if err != nil {
		return fmt.Errorf("bench guest: %w", err)
	}
	return nil
}
