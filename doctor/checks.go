package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/pci"
)

// findings looks at what concerns the machine as a whole.
func (m *machine) findings() []Finding {
	found := []Finding{m.iommu()}
	for _, name := range []string{"vfio", "vfio_iommu_type1", pci.DriverVFIO, pci.DriverUIOGeneric} {
		found = append(found, m.moduleFinding(name))
	}
	found = append(found, m.noIOMMU(), m.container())
	found = append(found, m.hugePageFindings()...)
	found = append(found, m.memlock())
	found = append(found, m.capabilityFindings()...)
	return append(found, m.processors())
}

func (m *machine) iommu() Finding {
	f := Finding{Check: "iommu", Level: Warn}
	if n := len(m.groups()); n > 0 {
		f.Level, f.Text = OK, "on, "+counted(n, "group")
		return f
	}
	switch word := m.iommuWord(); {
	case !m.hasKernelIOMMU():
		f.Text = "none: the firmware describes no IOMMU; switch it on there or, in a virtual machine, have the host add one (QEMU: -device intel-iommu)"
	case m.commandLineHas(word):
		f.Text = "off, though the kernel was told " + word + ": dmesg says why"
	default:
		f.Text, f.Mend = "off: the machine has one, and the kernel was not told "+word, switchOn(word)
	}
	return f
}

// iommuWord is the word of the kernel's command line that switches the IOMMU
// on.
func (m *machine) iommuWord() string {
	if m.exists("sys/firmware/acpi/tables/IVRS") {
		return "amd_iommu=on"
	}
	return "intel_iommu=on"
}

func (m *machine) commandLineHas(word string) bool {
	line, _ := m.read("proc/cmdline")
	return slices.Contains(strings.Fields(line), word)
}

// switchOn is the command for a machine that GRUB boots.
func switchOn(word string) string {
	return fmt.Sprintf(`sed -i 's/^GRUB_CMDLINE_LINUX="/&%s /' /etc/default/grub && update-grub && reboot`, word)
}

func (m *machine) moduleFinding(name string) Finding {
	f := Finding{Check: "module", Subject: name, Level: OK}
	switch m.module(name) {
	case moduleLoaded:
		f.Text = "loaded"
		return f
	case moduleMissing:
		f.Text = "kernel " + m.release + " has none"
	default:
		f.Text = "not loaded"
	}
	if name == pci.DriverUIOGeneric {
		f.Text += "; it is a way for machines without an IOMMU"
		return f
	}
	f.Level, f.Mend = Warn, m.load(name)
	return f
}

func (m *machine) noIOMMU() Finding {
	f := Finding{Check: "noiommu", Level: OK}
	switch mode, known := m.read(noIOMMUMode); {
	case mode == "Y" || mode == "1":
		f.Level, f.Text = Warn, "VFIO's no-IOMMU mode is on: a device can then reach all of the memory"
	case len(m.groups()) > 0:
		f.Text = "VFIO's no-IOMMU mode is off, and not needed"
	case known:
		f.Level, f.Text, f.Mend = Warn, "VFIO's no-IOMMU mode is off", "echo Y > /"+noIOMMUMode
	case m.module("vfio") == moduleLoaded:
		f.Level, f.Text = Warn, "this kernel has no VFIO_NOIOMMU"
	default:
		f.Text = "unknown: vfio is not loaded"
	}
	return f
}

// container looks at the node that all of VFIO starts from.
func (m *machine) container() Finding {
	const node = "dev/vfio/vfio"
	f := Finding{Check: "vfio", Subject: "/" + node, Level: OK, Text: "can be opened"}
	switch err := m.open(m.path(node)); {
	case missing(err):
		f.Level, f.Mend = Warn, m.load("vfio")
		f.Text = "not there: vfio is not loaded, or a container hides it"
	case err != nil:
		f.Level, f.Text, f.Mend = Warn, "cannot be opened: "+err.Error(), "chmod 0666 /"+node
	}
	return f
}

// wantedPages is the number of hugepages of 2 MiB to set aside: enough for a few
// ports and their pools.
const wantedPages = 64

func (m *machine) hugePageFindings() []Finding {
	if len(m.hugePages) == 0 {
		return []Finding{{Check: "hugepages", Level: Warn, Text: "this kernel has none: plain pages do, but not where physical addresses are wanted"}}
	}
	var found []Finding
	for _, h := range m.hugePages {
		f := Finding{Check: "hugepages", Subject: mbuf.SizeName(h.PageSize), Level: OK}
		f.Text = fmt.Sprintf("%d of %d free", h.Free, h.Total)
		if h.Node != mbuf.AnyNode {
			f.Subject += fmt.Sprintf(" on node %d", h.Node)
		}
		if m.freePages() == 0 && h.PageSize == m.usualPage() {
			f.Level, f.Mend = Warn, h.Reserve(wantedPages)
			f.Text += ": plain pages do, but not where physical addresses are wanted"
		}
		found = append(found, f)
	}
	return found
}

// usualPage is the smallest size of hugepages, the one that is easy to get.
func (m *machine) usualPage() int {
	return slices.MinFunc(m.hugePages, func(a, b mbuf.HugePages) int { return cmp.Compare(a.PageSize, b.PageSize) }).PageSize
}

// lockedMemory is what a port with its pool, or two, locks through VFIO.
const lockedMemory = 64 << 20

func (m *machine) memlock() Finding {
	f := Finding{Check: "memlock", Level: OK}
	soft, hard, known := m.lockLimits()
	switch {
	case m.can(unix.CAP_IPC_LOCK):
		f.Text = "CAP_IPC_LOCK lifts the limit"
	case !known:
		f.Level, f.Text = Warn, "the limit can't be read"
	case soft < 0:
		f.Text = "unlimited"
	case soft >= lockedMemory:
		f.Text = mbuf.SizeName(int(soft)) + " may be locked"
	default:
		f.Level = Warn
		f.Text = fmt.Sprintf("%s may be locked, and VFIO locks all buffers: %s want to be", mbuf.SizeName(int(soft)), mbuf.SizeName(lockedMemory))
		f.Mend = raiseLimit(hard)
	}
	return f
}

// raiseLimit is the command for the shell that starts vionet. Where the hard
// limit is in the way the user has to log in again after it.
func raiseLimit(hard int64) string {
	if hard < 0 || hard >= lockedMemory {
		return fmt.Sprintf("ulimit -l %d", lockedMemory>>10)
	}
	return "echo '* - memlock unlimited' > /etc/security/limits.d/vionet.conf"
}

// capabilities are those that some way of driving a function takes.
var capabilities = []struct {
	bit  int
	name string
	use  string
}{
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "physical addresses"},
	{unix.CAP_SYS_RAWIO, "CAP_SYS_RAWIO", "I/O ports, and VFIO without an IOMMU"},
	{unix.CAP_IPC_LOCK, "CAP_IPC_LOCK", "locking memory beyond the limit"},
}

// grant is the command that gives vionet all of them. Files below /proc/self
// belong to root for such a program, and the last one opens them.
const grant = `setcap cap_sys_admin,cap_sys_rawio,cap_ipc_lock,cap_dac_read_search+ep "$(command -v vionet)"`

func (m *machine) capabilityFindings() []Finding {
	var found []Finding
	for _, c := range capabilities {
		f := Finding{Check: "capability", Subject: c.name, Level: OK, Text: "there, for " + c.use}
		if !m.can(c.bit) {
			f.Level, f.Text, f.Mend = Warn, "lacking, for "+c.use, grant
		}
		found = append(found, f)
	}
	return found
}

func (m *machine) processors() Finding {
	f := Finding{Check: "cpu", Level: OK}
	info, _ := m.read("proc/cpuinfo")
	n := 0
	for line := range strings.Lines(info) {
		if strings.HasPrefix(line, "processor") {
			n++
		}
	}
	isolated, _ := m.read("sys/devices/system/cpu/isolated")
	switch {
	case n == 0:
		f.Level, f.Text = Warn, "processors can't be counted"
	case n == 1:
		f.Level, f.Text = Warn, "1 processor: polling leaves nothing for others"
	case isolated == "":
		f.Text = counted(n, "processor") + ", none isolated: isolcpus= on the kernel's command line keeps others off those that poll"
	default:
		f.Text = counted(n, "processor") + ", isolated: " + isolated
	}
	return f
}
