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
// Without KVM the guest's processor is emulated. The ratios of such a guest say more
// about the instructions that a driver needs than about caches and memory, and a kick
// costs the emulator's lock, for which the guest and the device wait on each other.
package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"

	"vionet/bench/report"
	"vionet/bench/turns"
	"vionet/scripts/lab"
)

// Settings say what is measured, and for how long.
type Settings struct {
	Vionet string         // the vionet binary
	Plan   turns.Plan     // of a cell
	Cells  *regexp.Regexp // selects cells by their names; nil: all
	// Tell is told of each cell when it is over, how many are, and of how many; and
	// of an error with all that was said until then. Nil is nobody.
	Tell func(done, total int, cell report.Cell, err error)
}

// selected are the cells of a machine that are to be measured.
func (s Settings) selected(m machine) (cells []cell) {
	for _, c := range m.cells() {
		if s.Cells == nil || s.Cells.MatchString(c.name()) {
			cells = append(cells, c)
		}
	}
	return cells
}

// List gives the names of the selected cells.
func (s Settings) List() (names []string) {
	for _, m := range machines {
		for _, c := range s.selected(m) {
			names = append(names, c.name())
		}
	}
	return names
}

// Measure measures the selected cells, and gives a table for each kind of host that has
// some. The error is about what none can do without; what goes wrong in a cell stands in
// that cell. When ctx ends the cells that are left say so.
func Measure(ctx context.Context, s Settings) ([]report.Table, error) {
	total := len(s.List())
	if total == 0 {
		return nil, errors.New("no cell has such a name")
	}
	if err := needs(); err != nil {
		return nil, err
	}
	processor, note := "kvm", "The guest runs with KVM."
	if err := lab.KVM(ctx); err != nil {
		processor = "tcg"
		note = fmt.Sprintf("The guest's processor is emulated (TCG), since there is no KVM here: %v.", err)
	}
	done, tables := 0, []report.Table{newTable(false, note), newTable(true, note)}
	for _, m := range machines {
		t := &tables[0]
		if m.qemu {
			t = &tables[1]
		}
		m.processor = processor
		m.measure(ctx, s, func(c report.Cell, err error) {
			t.Cells = append(t.Cells, c)
			if done++; s.Tell != nil {
				s.Tell(done, total, c, err)
			}
		})
	}
	return slices.DeleteFunc(tables, func(t report.Table) bool { return len(t.Cells) == 0 }), nil
}

// newTable is the table of a kind of host. Their rates are too far apart for one
// picture.
func newTable(qemu bool, note string) report.Table {
	t := report.Table{
		Name: "guest-vhost", Title: "In the guest, on DPDK's vhost, which polls", Unit: report.Mpps, Note: note,
		Drawing: &report.Drawing{Kind: report.Bars, Across: report.Topology, Panels: report.Size},
	}
	if qemu {
		t.Name, t.Title = "guest-qemu", "In the guest, on QEMU's own device, which is kicked"
	}
	return t
}

// needs says what is missing, and how to get it.
func needs() error {
	for program, in := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "dpdk-testpmd": "dpdk-dev", "go": "golang"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: apt-get install %s", err, in)
		}
	}
	if runtime.NumCPU() < 2 {
		return errors.New("one processor: a guest and its host need one each")
	}
	return nil
}

// measure boots one machine and measures its selected cells.
func (m machine) measure(ctx context.Context, s Settings, over func(report.Cell, error)) {
	selected := s.selected(m)
	if len(selected) == 0 {
		return
	}
	r, err := m.boot(ctx, s.Vionet)
	if err == nil {
		defer r.close()
	}
	for _, c := range selected {
		cell, failed := c.empty(), err
		if failed == nil {
			failed = r.run(ctx, s.Plan, c, &cell)
		}
		if failed != nil {
			failed = cmp.Or(context.Cause(ctx), failed)
			cell.Missing = report.Reason(failed)
		}
		if !errors.Is(failed, errIdle) {
			err = failed // a machine that failed once is not to be trusted with the rest
		}
		over(cell, failed)
	}
}
