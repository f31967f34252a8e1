package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"vionet/bench"
	"vionet/bench/driveronly"
)

// driverCommand measures front ends by themselves.
func driverCommand() *cli.Command {
	return &cli.Command{
		Name:  "driver",
		Usage: "measure what a front end costs by itself, in nanoseconds a packet",
		Description: "The back end gives descriptors back without a look at what they point to. Cells have names\n" +
			"such as path/transmit/split/simple (testpmd's modes, DPDK's beside vionet's),\n" +
			"loop/receive/packed/inorder/mergeable (vionet's driver alone) and\n" +
			"growth/transmit/split/simple/burst8 (the same, as one thing grows).",
		Flags: append(append(windowFlags(), &cli.BoolFlag{Name: "list", Usage: "print the names of the cells that would be measured"}), resultFlags()...),
		Action: func(c *cli.Context) error {
			return measured(c, bench.Settings.ListDriver, bench.Settings.Driver)
		},
	}
}

// startCommand measures how front ends start.
func startCommand() *cli.Command {
	return &cli.Command{
		Name:  "start",
		Usage: "measure the time from the start of a front end to its first packet, and its memory",
		Flags: append(windowFlags(), resultFlags()...),
		Action: func(c *cli.Context) error {
			return measured(c, nil, bench.Settings.Start)
		},
	}
}

// driverBackendCommand and driverFrontendCommand are processes of driverCommand.
func driverBackendCommand() *cli.Command {
	return &cli.Command{
		Name: driveronly.BackendCommand, Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "socket", Required: true},
			&cli.IntFlag{Name: "pairs", Value: 1},
		},
		Action: func(c *cli.Context) error {
			return driveronly.Serve(c.String("socket"), c.Int("pairs"), os.Stdin, c.App.Writer)
		},
	}
}

func driverFrontendCommand() *cli.Command {
	var l driveronly.Loop
	return &cli.Command{
		Name: driveronly.FrontendCommand, Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "socket", Required: true, Destination: &l.Socket},
			&cli.BoolFlag{Name: "receive", Destination: &l.Receive},
			&cli.BoolFlag{Name: "packed", Destination: &l.Packed},
			&cli.BoolFlag{Name: "in-order", Destination: &l.InOrder},
			&cli.BoolFlag{Name: "mergeable", Destination: &l.Mergeable},
			&cli.BoolFlag{Name: "standard", Destination: &l.Standard},
			&cli.IntFlag{Name: "burst", Destination: &l.Burst},
			&cli.IntFlag{Name: "ring-size", Destination: &l.RingSize},
			&cli.IntFlag{Name: "pairs", Destination: &l.Pairs},
			&cli.IntFlag{Name: "buffers", Destination: &l.Buffers},
			&cli.IntFlag{Name: "segments", Destination: &l.Segments},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := untilInterrupted(c.Context)
			defer stop()
			return driveronly.Drive(ctx, l)
		},
	}
}
