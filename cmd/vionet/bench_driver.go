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
		Flags: append(append(windowFlags(), namesFlag()), resultFlags()...),
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

// driverBackendCommand is a process of driverCommand and startCommand.
func driverBackendCommand() *cli.Command {
	return &cli.Command{
		Name: driveronly.BackendCommand, Hidden: true,
		Flags: []cli.Flag{&cli.StringFlag{Name: "socket", Required: true}},
		Action: func(c *cli.Context) error {
			return driveronly.Serve(c.String("socket"), 1, os.Stdin, c.App.Writer)
		},
	}
}
