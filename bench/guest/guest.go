// Package guest measures vionet and DPDK inside a virtual machine. Both are in the
// same guest, each with a function of its own on vfio-pci, and forward in turn for
// short windows; what counts is the ratio of neighbouring windows.
//
// The host is one of two. DPDK's vhost polls, so that the drivers need no kick; behind
// an IOMMU it has QEMU translate the addresses. QEMU's own device sleeps when it has
// nothing to do: every burst into an idle queue leaves the guest with a kick, and every
// address goes through the IOMMU, where there is one. Frames reach it through datagram
// sockets, whose other end is in this process.
//
// Without KVM the guest's processor is emulated. Every instruction then costs some ten
// of the host's, vector instructions more, and memory that both sides touch costs no
// more than any other. The ratios of such a guest say how many instructions a driver
// needs, not how it does on hardware.
package guest

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"vionet/bench/report"
	"vionet/bench/turns"
	"vionet/scripts/lab"
)

// Settings say what is measured, and for how long.
type Settings struct {
	Vionet string     // the vionet binary
	Plan   turns.Plan // of a cell
	Cells  *regexp.Regexp
	// Tell is told of each cell that is measured, and of an error with all that was
	// said until then; nil is nobody.
	Tell func(report.Cell, error)
}

// Measure measures the selected cells. With an error, which is that of ctx, the table
// has what there was until then; what goes wrong in a cell stands in that cell.
func Measure(ctx context.Context, s Settings) (report.Table, error) {
	t := report.Table{
		Name: "guest", Title: "In the guest, vionet and DPDK in turn", Unit: report.Mpps,
		Drawing: &report.Drawing{Kind: report.Bars, Across: report.Topology, Panels: report.Size},
	}
	processor, note := "tcg", ""
	if err := lab.KVM(ctx); err != nil {
		note = fmt.Sprintf("The guest's processor is emulated (TCG), since there is no KVM here: %v.", err)
	} else {
		processor, note = "kvm", "The guest runs with KVM."
	}
	t.Note = note + " Each driver has a function of its own in the same guest. DPDK's vhost polls; QEMU's device is kicked."
	for _, m := range machines {
		m.processor = processor
		cells := m.measure(ctx, s)
		t.Cells = append(t.Cells, cells...)
	}
	return t, ctx.Err()
}

// Names are the names of all cells.
func Names() (names []string) {
	for _, m := range machines {
		for _, c := range m.cells() {
			names = append(names, c.name())
		}
	}
	return names
}

// measure boots one machine and measures its selected cells.
func (m machine) measure(ctx context.Context, s Settings) (cells []report.Cell) {
	var selected []cell
	for _, c := range m.cells() {
		if s.Cells == nil || s.Cells.MatchString(c.name()) {
			selected = append(selected, c)
		}
	}
	if len(selected) == 0 {
		return nil
	}
	r, err := m.boot(ctx, s.Vionet)
	if err == nil {
		defer r.close()
	}
	for _, c := range selected {
		cell := c.empty()
		if err == nil {
			// A machine that failed once is not to be trusted with the rest.
			err = r.run(ctx, s.Plan, c, &cell)
		}
		if err != nil {
			// The first line is the error, those behind it are a dialogue.
			cell.Missing, _, _ = strings.Cut(cmp.Or(ctx.Err(), err).Error(), "\n")
		}
		if s.Tell != nil {
			s.Tell(cell, err)
		}
		cells = append(cells, cell)
	}
	return cells
}
