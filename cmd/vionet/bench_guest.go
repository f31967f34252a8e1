package main

import (
	"context"
	"fmt"
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
	return &cli.Command{
		Name: "guest", Usage: "measure both drivers in one virtual machine, in about four minutes",
		Description: "Each driver has a function of its own in the same guest, bound to vfio-pci. Cells have names such\n" +
			"as guest/qemu/iommu/split/loopback/64B: the host (DPDK's vhost, or QEMU's own device), whether an\n" +
			"IOMMU translates addresses, ring, topology, bytes of a frame. With KVM where a guest boots with it,\n" +
			"otherwise the processor is emulated. Run it in the source tree: it builds the guest's init.",
		Flags:  append(append(windowFlagsFrom(guestWindows, guestWindow), namesFlag()), resultFlags()...),
		Action: func(c *cli.Context) error { return measured(c, listGuest, measureGuest) },
	}
}

// guestSettings are those of a measurement in a guest.
func guestSettings(s bench.Settings) guest.Settings {
	return guest.Settings{Vionet: s.Vionet, Cells: s.Cells, Plan: turns.Plan{Windows: s.Windows, Window: s.Window}}
}

func listGuest(s bench.Settings) []string { return guestSettings(s).List() }

func measureGuest(s bench.Settings, ctx context.Context) (report.Report, error) {
	r := report.Report{Date: time.Now(), Machine: report.ThisMachine()}
	g := guestSettings(s)
	g.Tell = func(done, total int, cell report.Cell, err error) {
		if err != nil && ctx.Err() == nil {
			s.Warn(fmt.Sprintf("%s: %v", cell.Name, err))
		}
		s.Progress(bench.Progress{Done: done * s.Windows, Total: total * s.Windows, Cell: cell.Name, Finished: true})
	}
	var err error
	r.Tables, err = guest.Measure(ctx, g)
	r.Interrupted = ctx.Err() != nil
	return r, err
}
