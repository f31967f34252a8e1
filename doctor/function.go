package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci"
)

// function finds out whether vionet can drive f now, and if not, why.
func (m *machine) function(f pci.Function) Function {
	found := Function{
		Address: f.BDF, Device: f.DeviceName, Driver: f.Driver, Group: f.Group,
		Members: m.members(f), Interfaces: append([]string{}, f.Interfaces...),
		InUse: m.tree.InUse(f), NUMANode: f.NUMANode,
	}
	bound := f.Driver == pci.DriverVFIO || slices.Contains(uioDrivers, f.Driver)
	switch {
	case f.Driver == pci.DriverVFIO:
		found.Findings = m.vfioBound(f, found.Members)
	case bound:
		found.Findings = m.uioBound(f)
	case found.InUse != "":
		found.Findings = []Finding{leftToKernel(f, found.InUse)}
	default:
		found.Findings = m.unbound(f, found.Members)
	}
	found.Ready = bound && !fails(found.Findings)
	return found
}

// members lists the other functions of f's group.
func (m *machine) members(f pci.Function) []string {
	others := []string{}
	if f.Group < 0 {
		return others
	}
	for _, bdf := range m.list("sys/kernel/iommu_groups", strconv.Itoa(f.Group), "devices") {
		if bdf != f.BDF {
			others = append(others, bdf)
		}
	}
	return others
}

// leftToKernel is no failure: the machine needs the function as it is.
func leftToKernel(f pci.Function, why string) Finding {
	found := Finding{Check: "driver", Level: Warn, Text: "left to the kernel: " + why}
	if name, up := strings.CutSuffix(why, " is up"); up {
		found.Mend = commands("ip link set dev "+name+" down", bind(pci.DriverVFIO, f.BDF))
	} else {
		found.Text += "; to take it would cut the machine off"
	}
	return found
}

func bind(driver string, addresses ...string) string {
	return "vionet devbind -b " + driver + " " + strings.Join(addresses, " ")
}

// unbound looks for the shortest way to a driver that leaves f to programs:
// VFIO behind an IOMMU, VFIO without one, UIO.
func (m *machine) unbound(f pci.Function, members []string) []Finding {
	text := "no kernel driver has it"
	if f.Driver != "" {
		text = f.Driver + " has it"
	}
	driver := Finding{Check: "driver", Level: Fail, Text: text + ": it must be bound to " + pci.DriverVFIO}
	mode, hasMode := m.read(noIOMMUMode)
	switch {
	case f.Group >= 0:
		return m.unboundInGroup(f, members, driver)
	case m.hasKernelIOMMU() && !m.commandLineHas(m.iommuWord()):
		driver.Text += ", which takes an IOMMU, and that is off"
		driver.Mend = switchOn(m.iommuWord())
		return []Finding{driver}
	case hasMode:
		enable := "echo Y > /" + noIOMMUMode
		if mode == "Y" || mode == "1" {
			enable = ""
		}
		driver.Text += "; there is no IOMMU, so its DMA will not be isolated"
		driver.Mend = commands(enable, m.load(pci.DriverVFIO), bind(pci.DriverVFIO, f.BDF))
	case m.module(pci.DriverUIOGeneric) != moduleMissing && m.module(pci.DriverUIOGeneric) != moduleUnknown:
		driver.Text += " or, since there is no IOMMU, to " + pci.DriverUIOGeneric + "; its DMA will not be isolated"
		driver.Mend = commands(m.load(pci.DriverUIOGeneric), bind(pci.DriverUIOGeneric, f.BDF))
	default:
		driver.Text += ", which takes an IOMMU: have the host add one (QEMU: -device intel-iommu), or load a vfio with VFIO_NOIOMMU or " + pci.DriverUIOGeneric
		return []Finding{driver}
	}
	return append([]Finding{driver}, m.physical()...)
}

// unboundInGroup is for a function that an IOMMU stands behind. It takes its
// whole group.
func (m *machine) unboundInGroup(f pci.Function, members []string, driver Finding) []Finding {
	together := []string{f.BDF}
	for _, other := range m.holders(members) {
		together = append(together, other.BDF)
	}
	if m.module(pci.DriverVFIO) == moduleMissing {
		driver.Text += ", which kernel " + m.release + " has not: install one that has"
	} else {
		driver.Mend = commands(m.load(pci.DriverVFIO), bind(pci.DriverVFIO, together...))
	}
	return append([]Finding{driver}, m.sharedGroup(f, members)...)
}

// holders are the members of a group that keep VFIO from using it: those with
// a driver that may do DMA.
func (m *machine) holders(members []string) []pci.Function {
	harmless := []string{"", pci.DriverVFIO, "pci-stub", "pcieport"}
	var holders []pci.Function
	for _, bdf := range members {
		if other, err := m.tree.Function(bdf); err == nil && !slices.Contains(harmless, other.Driver) {
			holders = append(holders, other)
		}
	}
	return holders
}

func (m *machine) sharedGroup(f pci.Function, members []string) []Finding {
	var addresses, names []string
	for _, other := range m.holders(members) {
		addresses = append(addresses, other.BDF)
		names = append(names, fmt.Sprintf("%s (%s)", other.BDF, other.Driver))
	}
	if len(names) == 0 {
		return nil
	}
	return []Finding{{
		Check: "group", Subject: strconv.Itoa(f.Group), Level: Fail,
		Text: "the kernel drives others of the group: " + strings.Join(names, ", ") + "; VFIO gives a group as a whole",
		Mend: bind(pci.DriverVFIO, addresses...),
	}}
}

// vfioBound is for a function that VFIO has: can its group be opened, and is
// there memory for it?
func (m *machine) vfioBound(f pci.Function, members []string) []Finding {
	driver := Finding{Check: "driver", Level: OK, Text: "bound to " + pci.DriverVFIO}
	if f.Group < 0 {
		driver.Level, driver.Mend = Fail, rebind(f)
		driver.Text += ", but in no group"
		return []Finding{driver}
	}
	node, guarded := strconv.Itoa(f.Group), !m.unguarded(f.Group)
	if !guarded {
		node = noIOMMUPrefix + node
		driver.Level = Warn
		driver.Text += " without an IOMMU: its DMA is not isolated"
	}
	found := append([]Finding{driver}, m.sharedGroup(f, members)...)
	found = append(found, m.groupNode(f, "dev/vfio/"+node))
	if !guarded {
		return append(found, m.physical()...)
	}
	if lock := m.memlock(); lock.Level == Warn {
		lock.Level = Fail
		found = append(found, lock)
	}
	return found
}

// rebind is the command that gives f back and takes it again.
func rebind(f pci.Function) string {
	return commands("vionet devbind -u "+f.BDF, bind(f.Driver, f.BDF))
}

// groupNode opens the node of a group, which only one process can have open.
func (m *machine) groupNode(f pci.Function, node string) Finding {
	found := Finding{Check: "vfio", Subject: "/" + node, Level: OK, Text: "can be opened"}
	switch err := m.open(m.path(node)); {
	case err == nil:
	case errors.Is(err, unix.EBUSY):
		found.Check, found.Level = "users", Warn
		found.Text, found.Mend = "a process drives the function, or another of its group", "fuser -v /"+node
	case missing(err):
		found.Level, found.Text, found.Mend = Fail, "not there", rebind(f)
	case m.unguarded(f.Group):
		found.Level, found.Text, found.Mend = Fail, "cannot be opened without CAP_SYS_RAWIO: "+err.Error(), grant
	default:
		found.Level, found.Text, found.Mend = Fail, "cannot be opened: "+err.Error(), `chown "$(logname)" /`+node
	}
	return found
}

// uioBound is for a function that UIO has: there is a node, and memory at
// physical addresses.
func (m *machine) uioBound(f pci.Function) []Finding {
	found := []Finding{{Check: "driver", Level: Warn, Text: "bound to " + f.Driver + ": its DMA is not isolated"}}
	if len(m.list("sys/bus/pci/devices", f.BDF, "uio")) == 0 {
		found = append(found, Finding{
			Check: "uio", Level: Fail, Text: f.Driver + " made no UIO device of it: dmesg says why",
			Mend: rebind(f),
		})
	}
	return append(found, m.physical()...)
}

// physical finds out what keeps a device that no IOMMU stands behind from
// getting memory: hugepages, and the right to know where they are.
func (m *machine) physical() []Finding {
	var found []Finding
	if m.freePages() == 0 {
		f := Finding{Check: "hugepages", Level: Fail, Text: "none is free, and physical addresses need them"}
		if len(m.hugePages) > 0 {
			first := m.hugePages[0]
			first.Node, first.Total, first.Free = mbuf.AnyNode, 0, 0
			first.PageSize = m.usualPage()
			for _, h := range m.hugePages {
				if h.PageSize == first.PageSize {
					first.Total += h.Total
				}
			}
			f.Mend = first.Reserve(wantedPages)
		}
		found = append(found, f)
	}
	for _, c := range capabilities {
		if c.bit != unix.CAP_IPC_LOCK && !m.can(c.bit) {
			found = append(found, Finding{Check: "capability", Subject: c.name, Level: Fail, Text: "lacking, for " + c.use, Mend: grant})
		}
	}
	return found
}
