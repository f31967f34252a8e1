package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/pci"
	"vionet/pci/pcitest"
)

// Files that the fakes change.
const (
	release   = "6.1.0-9-amd64"
	dep       = "lib/modules/" + release + "/modules.dep"
	builtin   = "lib/modules/" + release + "/modules.builtin"
	hugeTotal = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
	hugeFree  = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages"
	dmar      = "sys/firmware/acpi/tables/DMAR"
	limits    = "proc/self/limits"
	status    = "proc/self/status"
)

// allCapabilities are those of root. SYS_ADMIN is bit 21, SYS_RAWIO 17 and
// IPC_LOCK 14.
const allCapabilities = "Name:\tvionet\nCapEff:\t000001ffffffffff\n"

// withoutCapability is the same with one bit less.
func withoutCapability(bit int) string {
	return fmt.Sprintf("CapEff:\t%016x\n", uint64(0x1ffffffffff)&^(1<<bit))
}

// lockedKB is the file with the limits, in KiB.
func lockedKB(soft, hard int) string {
	return fmt.Sprintf("Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         %d              %d              bytes     \nMax processes  1 1\n", soft<<10, hard<<10)
}

// newKernel is a machine where all is well: an IOMMU, modules, hugepages,
// capabilities, four processors, and one function bound to vfio-pci.
func newKernel(t *testing.T) *pcitest.Kernel {
	k := pcitest.New(t)
	for path, content := range map[string]string{
		"proc/sys/kernel/osrelease":       release + "\n",
		"proc/cmdline":                    "root=/dev/vda1 intel_iommu=on quiet\n",
		"proc/modules":                    "",
		"proc/cpuinfo":                    strings.Repeat("processor\t: 0\nvendor_id\t: GenuineIntel\n\n", 4),
		status:                            allCapabilities,
		limits:                            lockedKB(8192, 8192),
		dmar:                              "",
		hugeTotal:                         "64\n",
		hugeFree:                          "60\n",
		"sys/devices/system/cpu/isolated": "\n",
		dep:                               "kernel/drivers/vfio/vfio.ko.xz:\nkernel/drivers/uio/uio_pci_generic.ko.xz: kernel/drivers/uio/uio.ko.xz\nkernel/drivers/vfio/pci/vfio-pci.ko.xz:\n",
		builtin:                           "kernel/drivers/vfio/vfio_iommu_type1.ko\n",
		"sys/module/vfio/refcnt":          "1\n",
		"dev/vfio/vfio":                   "",
		"dev/vfio/2":                      "",
	} {
		k.WriteFile(path, content)
	}
	k.Add(pcitest.Function{BDF: "0000:00:04.0", Vendor: 0x1af4, Device: 0x1041, Driver: "vfio-pci", Group: 2})
	return k
}

// remove takes a file or a directory away.
func remove(t *testing.T, k *pcitest.Kernel, path string) {
	t.Helper()
	if err := os.RemoveAll(k.Root + "/" + path); err != nil {
		t.Fatal(err)
	}
}

func examine(t *testing.T, m *machine) Report {
	t.Helper()
	r, err := m.examine()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func machineOf(k *pcitest.Kernel) *machine {
	return newMachine(pci.Tree{Root: k.Root, Store: k.Store})
}

func TestAllIsWell(t *testing.T) {
	const want = `Machine
  OK    iommu       on, 1 group
  OK    module      vfio: loaded
  OK    module      vfio_iommu_type1: loaded
  OK    module      vfio-pci: loaded
  OK    module      uio_pci_generic: not loaded; it is a way for machines without an IOMMU
  OK    noiommu     VFIO's no-IOMMU mode is off, and not needed
  OK    vfio        /dev/vfio/vfio: can be opened
  OK    hugepages   2 MiB on node 0: 60 of 64 free
  OK    memlock     CAP_IPC_LOCK lifts the limit
  OK    capability  CAP_SYS_ADMIN: there, for physical addresses
  OK    capability  CAP_SYS_RAWIO: there, for I/O ports, and VFIO without an IOMMU
  OK    capability  CAP_IPC_LOCK: there, for locking memory beyond the limit
  OK    cpu         4 processors, none isolated: isolcpus= on the kernel's command line keeps others off those that poll

Function 0000:00:04.0 'Virtio 1.0 network device', driver vfio-pci, IOMMU group 2
  OK    driver      bound to vfio-pci
  OK    vfio        /dev/vfio/2: can be opened

1 of 1 virtio-net function ready; ports over vhost-user work
`
	k := newKernel(t)
	r := examine(t, machineOf(k))
	var got strings.Builder
	if err := r.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !r.OK || r.Counts != (Counts{OK: 15}) || !r.Functions[0].Ready {
		t.Errorf("ok %v, counts %+v", r.OK, r.Counts)
	}
	if len(k.Writes) > 0 {
		t.Errorf("it wrote %v", k.Writes)
	}
}

// Each case changes one thing of the machine where all is well, and wants one
// finding about it.
func TestMachineFindings(t *testing.T) {
	write := func(pairs ...string) func(*testing.T, *pcitest.Kernel) {
		return func(_ *testing.T, k *pcitest.Kernel) {
			for i := 0; i < len(pairs); i += 2 {
				k.WriteFile(pairs[i], pairs[i+1])
			}
		}
	}
	without := func(paths ...string) func(*testing.T, *pcitest.Kernel) {
		return func(t *testing.T, k *pcitest.Kernel) {
			for _, p := range paths {
				remove(t, k, p)
			}
		}
	}
	both := func(each ...func(*testing.T, *pcitest.Kernel)) func(*testing.T, *pcitest.Kernel) {
		return func(t *testing.T, k *pcitest.Kernel) {
			for _, f := range each {
				f(t, k)
			}
		}
	}
	noGroups := without("sys/kernel/iommu_groups", "sys/bus/pci/devices/0000:00:04.0")
	const modeOn = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
	tests := []struct {
		name   string
		change func(*testing.T, *pcitest.Kernel)
		want   Finding
	}{
		{"no IOMMU", both(noGroups, without(dmar)), Finding{
			"iommu", "", Warn, "none: the firmware describes no IOMMU; switch it on there or, in a virtual machine, have the host add one (QEMU: -device intel-iommu)", "",
		}},
		{"IOMMU not switched on", both(noGroups, write("proc/cmdline", "quiet\n")), Finding{
			"iommu", "", Warn, "off: the machine has one, and the kernel was not told intel_iommu=on",
			`sed -i 's/^GRUB_CMDLINE_LINUX="/&intel_iommu=on /' /etc/default/grub && update-grub && reboot`,
		}},
		{"AMD", both(noGroups, without(dmar), write("sys/firmware/acpi/tables/IVRS", "")), Finding{
			"iommu", "", Warn, "off: the machine has one, and the kernel was not told amd_iommu=on",
			`sed -i 's/^GRUB_CMDLINE_LINUX="/&amd_iommu=on /' /etc/default/grub && update-grub && reboot`,
		}},
		{"IOMMU that stays off", noGroups, Finding{
			"iommu", "", Warn, "off, though the kernel was told intel_iommu=on: dmesg says why", "",
		}},
		{"only groups that VFIO made", write("sys/kernel/iommu_groups/2/name", "vfio-noiommu\n"), Finding{
			"iommu", "", Warn, "off, though the kernel was told intel_iommu=on: dmesg says why", "",
		}},
		{"module available", without("sys/bus/pci/drivers/vfio-pci"), Finding{
			"module", "vfio-pci", Warn, "not loaded", "modprobe vfio-pci",
		}},
		{"no list of modules", without("sys/bus/pci/drivers/vfio-pci", dep), Finding{
			"module", "vfio-pci", Warn, "not loaded", "modprobe vfio-pci",
		}},
		{"module missing", both(without("sys/bus/pci/drivers/vfio-pci"), write(dep, "kernel/drivers/vfio/vfio.ko:\n")), Finding{
			"module", "vfio-pci", Warn, "kernel " + release + " has none", "",
		}},
		{"kernel without modules", without("sys/bus/pci/drivers/vfio-pci", "proc/modules"), Finding{
			"module", "vfio-pci", Warn, "kernel " + release + " has none", "",
		}},
		{"other spelling", both(without("sys/module/vfio"), write("sys/module/uio_pci_generic/refcnt", "0")), Finding{
			"module", "uio_pci_generic", OK, "loaded", "",
		}},
		{"no-IOMMU mode on", write(modeOn, "Y\n"), Finding{
			"noiommu", "", Warn, "VFIO's no-IOMMU mode is on: a device can then reach all of the memory", "",
		}},
		{"no-IOMMU mode off", both(noGroups, write(modeOn, "N\n")), Finding{
			"noiommu", "", Warn, "VFIO's no-IOMMU mode is off", "echo Y > /" + modeOn,
		}},
		{"no such mode", noGroups, Finding{"noiommu", "", Warn, "this kernel has no VFIO_NOIOMMU", ""}},
		{"mode unknown", both(noGroups, without("sys/module/vfio")), Finding{"noiommu", "", OK, "unknown: vfio is not loaded", ""}},
		{"no VFIO node", without("dev/vfio/vfio", "sys/module/vfio"), Finding{
			"vfio", "/dev/vfio/vfio", Warn, "not there: vfio is not loaded, or a container hides it", "modprobe vfio",
		}},
		{"no hugepages free", write(hugeFree, "0\n"), Finding{
			"hugepages", "2 MiB on node 0", Warn, "0 of 64 free: plain pages do, but not where physical addresses are wanted",
			"echo 128 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
		}},
		{"hugepages of 1 GiB", write(hugeFree, "0\n",
			"sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "2\n",
			"sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages", "1\n"), Finding{
			"hugepages", "1 GiB on node 1", OK, "1 of 2 free", "",
		}},
		{"no hugepages", without("sys/devices/system/node"), Finding{
			"hugepages", "", Warn, "this kernel has none: plain pages do, but not where physical addresses are wanted", "",
		}},
		{"little may be locked", write(status, withoutCapability(14), limits, lockedKB(8192, 1<<20)), Finding{
			"memlock", "", Warn, "8 MiB may be locked, and VFIO locks all buffers: 64 MiB want to be", "ulimit -l 65536",
		}},
		{"little may ever be locked", write(status, withoutCapability(14)), Finding{
			"memlock", "", Warn, "8 MiB may be locked, and VFIO locks all buffers: 64 MiB want to be",
			"echo '* - memlock unlimited' > /etc/security/limits.d/vionet.conf",
		}},
		{"enough may be locked", write(status, withoutCapability(14), limits, lockedKB(65536, 65536)), Finding{
			"memlock", "", OK, "64 MiB may be locked", "",
		}},
		{"all may be locked", write(status, withoutCapability(14), limits, "Max locked memory         unlimited            unlimited            bytes\n"), Finding{
			"memlock", "", OK, "unlimited", "",
		}},
		{"limit unknown", both(without(limits), write(status, withoutCapability(14))), Finding{
			"memlock", "", Warn, "the limit can't be read", "",
		}},
		{"no CAP_SYS_ADMIN", write(status, withoutCapability(21)), Finding{
			"capability", "CAP_SYS_ADMIN", Warn, "lacking, for physical addresses", grant,
		}},
		{"no CAP_SYS_RAWIO", write(status, withoutCapability(17)), Finding{
			"capability", "CAP_SYS_RAWIO", Warn, "lacking, for I/O ports, and VFIO without an IOMMU", grant,
		}},
		{"no CAP_IPC_LOCK", write(status, withoutCapability(14)), Finding{
			"capability", "CAP_IPC_LOCK", Warn, "lacking, for locking memory beyond the limit", grant,
		}},
		{"one processor", write("proc/cpuinfo", "processor\t: 0\n"), Finding{
			"cpu", "", Warn, "1 processor: polling leaves nothing for others", "",
		}},
		{"isolated processors", write("sys/devices/system/cpu/isolated", "2-3\n"), Finding{
			"cpu", "", OK, "4 processors, isolated: 2-3", "",
		}},
		{"processors unknown", without("proc/cpuinfo"), Finding{"cpu", "", Warn, "processors can't be counted", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKernel(t)
			tt.change(t, k)
			m := machineOf(k)
			var same []Finding
			for _, f := range m.findings() {
				if f.Level == Fail {
					t.Errorf("the machine itself fails: %+v", f)
				}
				if f.Check == tt.want.Check && f.Subject == tt.want.Subject {
					same = append(same, f)
				}
			}
			if diff := cmp.Diff([]Finding{tt.want}, same); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Each case adds a function to a machine, and wants all findings about it.
func TestFunctionFindings(t *testing.T) {
	const bdf = "0000:00:05.0"
	const mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
	const bindIt = "vionet devbind -b vfio-pci " + bdf
	physical := Finding{"hugepages", "", Fail, "none is free, and physical addresses need them", "echo 128 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"}
	tests := []struct {
		name   string
		add    pcitest.Function // the address and the type are filled in
		change func(*pcitest.Kernel)
		open   error // of /dev/vfio/5, or of its like
		want   []Finding
		ready  bool
	}{
		{
			name: "bound",
			add:  pcitest.Function{Driver: "vfio-pci", Group: 5},
			want: []Finding{
				{"driver", "", OK, "bound to vfio-pci", ""},
				{"vfio", "/dev/vfio/5", OK, "can be opened", ""},
			},
			ready: true,
		},
		{
			name: "busy",
			add:  pcitest.Function{Driver: "vfio-pci", Group: 5},
			open: syscall.EBUSY,
			want: []Finding{
				{"driver", "", OK, "bound to vfio-pci", ""},
				{"users", "/dev/vfio/5", Warn, "a process drives the function, or another of its group", "fuser -v /dev/vfio/5"},
			},
			ready: true,
		},
		{
			name: "node of another user",
			add:  pcitest.Function{Driver: "vfio-pci", Group: 5},
			open: syscall.EACCES,
			want: []Finding{
				{"driver", "", OK, "bound to vfio-pci", ""},
				{"vfio", "/dev/vfio/5", Fail, "cannot be opened: permission denied", `chown "$(logname)" /dev/vfio/5`},
			},
		},
		{
			name: "no node",
			add:  pcitest.Function{Driver: "vfio-pci", Group: 5},
			open: syscall.ENOENT,
			want: []Finding{
				{"driver", "", OK, "bound to vfio-pci", ""},
				{"vfio", "/dev/vfio/5", Fail, "not there", "vionet devbind -u " + bdf + " && " + bindIt},
			},
		},
		{
			name: "little may be locked",
			add:  pcitest.Function{Driver: "vfio-pci", Group: 5},
			change: func(k *pcitest.Kernel) {
				k.WriteFile(status, withoutCapability(14))
				k.WriteFile(limits, lockedKB(8192, 1<<20))
			},
			want: []Finding{
				{"driver", "", OK, "bound to vfio-pci", ""},
				{"vfio", "/dev/vfio/5", OK, "can be opened", ""},
				{"memlock", "", Fail, "8 MiB may be locked, and VFIO locks all buffers: 64 MiB want to be", "ulimit -l 65536"},
			},
		},
		{
			name: "the kernel has others of the group",
			add:  pcitest.Function{Driver: "vfio-pci", Group: 5},
			change: func(k *pcitest.Kernel) {
				k.Add(pcitest.Function{BDF: "0000:00:05.1", Vendor: 0x8086, Device: 0x100e, Group: 5, Driver: "virtio-pci"})
				k.Add(pcitest.Function{BDF: "0000:00:05.2", Vendor: 0x8086, Device: 0x100e, Group: 5})
			},
			want: []Finding{
				{"driver", "", OK, "bound to vfio-pci", ""},
				{"group", "5", Fail, "the kernel drives others of the group: 0000:00:05.1 (virtio-pci); VFIO gives a group as a whole", "vionet devbind -b vfio-pci 0000:00:05.1"},
				{"vfio", "/dev/vfio/5", OK, "can be opened", ""},
			},
		},
		{
			name:   "without an IOMMU",
			add:    pcitest.Function{Driver: "vfio-pci", Group: 5},
			change: func(k *pcitest.Kernel) { k.WriteFile("sys/kernel/iommu_groups/5/name", "vfio-noiommu\n") },
			want: []Finding{
				{"driver", "", Warn, "bound to vfio-pci without an IOMMU: its DMA is not isolated", ""},
				{"vfio", "/dev/vfio/noiommu-5", OK, "can be opened", ""},
			},
			ready: true,
		},
		{
			name: "without an IOMMU, hugepages and a capability",
			add:  pcitest.Function{Driver: "vfio-pci", Group: 5},
			change: func(k *pcitest.Kernel) {
				k.WriteFile("dev/vfio/noiommu-5", "")
				k.WriteFile(hugeFree, "0\n")
				k.WriteFile(status, withoutCapability(17))
			},
			open: syscall.EPERM,
			want: []Finding{
				{"driver", "", Warn, "bound to vfio-pci without an IOMMU: its DMA is not isolated", ""},
				{"vfio", "/dev/vfio/noiommu-5", Fail, "cannot be opened without CAP_SYS_RAWIO: operation not permitted", grant},
				physical,
				{"capability", "CAP_SYS_RAWIO", Fail, "lacking, for I/O ports, and VFIO without an IOMMU", grant},
			},
		},
		{
			name: "in no group",
			add:  pcitest.Function{Driver: "vfio-pci"},
			want: []Finding{{"driver", "", Fail, "bound to vfio-pci, but in no group", "vionet devbind -u " + bdf + " && " + bindIt}},
		},
		{
			name: "carries the default route",
			add:  pcitest.Function{Driver: "virtio-pci", Group: 5, Interface: "eth0", Up: true},
			change: func(k *pcitest.Kernel) {
				k.SetRoutes("eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", "")
			},
			want: []Finding{{"driver", "", Warn, "left to the kernel: eth0 carries the default route; to take it would cut the machine off", ""}},
		},
		{
			name: "interface up",
			add:  pcitest.Function{Driver: "virtio-pci", Group: 5, Interface: "eth0", Up: true},
			want: []Finding{{"driver", "", Warn, "left to the kernel: eth0 is up", "ip link set dev eth0 down && " + bindIt}},
		},
		{
			name: "idle",
			add:  pcitest.Function{Driver: "virtio-pci", Group: 5, Interface: "eth0"},
			want: []Finding{{"driver", "", Fail, "virtio-pci has it: it must be bound to vfio-pci", bindIt}},
		},
		{
			name: "no driver, module not loaded, shared group",
			add:  pcitest.Function{Group: 5},
			change: func(k *pcitest.Kernel) {
				k.RemoveDriver("vfio-pci")
				k.Add(pcitest.Function{BDF: "0000:00:05.1", Vendor: 0x1af4, Device: 0x1042, Class: 0x010000, Group: 5, Driver: "virtio-pci"})
			},
			want: []Finding{
				{"driver", "", Fail, "no kernel driver has it: it must be bound to vfio-pci", "modprobe vfio-pci && " + bindIt + " 0000:00:05.1"},
				{"group", "5", Fail, "the kernel drives others of the group: 0000:00:05.1 (virtio-pci); VFIO gives a group as a whole", "vionet devbind -b vfio-pci 0000:00:05.1"},
			},
		},
		{
			name: "no driver, and no such module",
			add:  pcitest.Function{Group: 5},
			change: func(k *pcitest.Kernel) {
				k.RemoveDriver("vfio-pci")
				k.WriteFile(dep, "")
			},
			want: []Finding{{"driver", "", Fail, "no kernel driver has it: it must be bound to vfio-pci, which kernel " + release + " has not: install one that has", ""}},
		},
		{
			name:   "IOMMU not switched on",
			change: func(k *pcitest.Kernel) { k.WriteFile("proc/cmdline", "quiet\n") },
			want: []Finding{{
				"driver", "", Fail, "no kernel driver has it: it must be bound to vfio-pci, which takes an IOMMU, and that is off",
				`sed -i 's/^GRUB_CMDLINE_LINUX="/&intel_iommu=on /' /etc/default/grub && update-grub && reboot`,
			}},
		},
		{
			name:   "no-IOMMU mode off",
			change: func(k *pcitest.Kernel) { k.WriteFile(mode, "N\n") },
			want: []Finding{{
				"driver", "", Fail, "no kernel driver has it: it must be bound to vfio-pci; there is no IOMMU, so its DMA will not be isolated",
				"echo Y > /" + mode + " && " + bindIt,
			}},
		},
		{
			name: "no-IOMMU mode on, no hugepages",
			change: func(k *pcitest.Kernel) {
				k.WriteFile(mode, "Y\n")
				k.WriteFile(hugeFree, "0\n")
			},
			want: []Finding{
				{"driver", "", Fail, "no kernel driver has it: it must be bound to vfio-pci; there is no IOMMU, so its DMA will not be isolated", bindIt},
				physical,
			},
		},
		{
			name: "UIO to be loaded",
			want: []Finding{{
				"driver", "", Fail, "no kernel driver has it: it must be bound to vfio-pci or, since there is no IOMMU, to uio_pci_generic; its DMA will not be isolated",
				"modprobe uio_pci_generic && vionet devbind -b uio_pci_generic " + bdf,
			}},
		},
		{
			name:   "no way at all",
			change: func(k *pcitest.Kernel) { k.WriteFile(dep, "") },
			want: []Finding{{
				"driver", "", Fail, "no kernel driver has it: it must be bound to vfio-pci, which takes an IOMMU: have the host add one (QEMU: -device intel-iommu), or load a vfio with VFIO_NOIOMMU or uio_pci_generic", "",
			}},
		},
		{
			name: "UIO",
			add:  pcitest.Function{Driver: "igb_uio"},
			change: func(k *pcitest.Kernel) {
				k.WriteFile("sys/bus/pci/devices/"+bdf+"/uio/uio0/name", "igb_uio\n")
			},
			want:  []Finding{{"driver", "", Warn, "bound to igb_uio: its DMA is not isolated", ""}},
			ready: true,
		},
		{
			name: "UIO without a device, pages and the right to see them",
			add:  pcitest.Function{Driver: "uio_pci_generic"},
			change: func(k *pcitest.Kernel) {
				k.WriteFile(hugeFree, "0\n")
				k.WriteFile(status, withoutCapability(21))
			},
			want: []Finding{
				{"driver", "", Warn, "bound to uio_pci_generic: its DMA is not isolated", ""},
				{"uio", "", Fail, "uio_pci_generic made no UIO device of it: dmesg says why", "vionet devbind -u " + bdf + " && vionet devbind -b uio_pci_generic " + bdf},
				physical,
				{"capability", "CAP_SYS_ADMIN", Fail, "lacking, for physical addresses", grant},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newKernel(t)
			k.AddDriver("igb_uio", nil)
			if tt.add.Driver == "uio_pci_generic" {
				k.AddDriver("uio_pci_generic", nil)
			}
			tt.add.BDF, tt.add.Vendor, tt.add.Device = bdf, 0x1af4, 0x1000
			k.Add(tt.add)
			if tt.change != nil {
				tt.change(k)
			}
			m := machineOf(k)
			m.open = func(path string) error {
				if strings.HasSuffix(path, "5") {
					return tt.open
				}
				return nil
			}
			r := examine(t, m)
			if len(r.Functions) != 2 || r.Functions[1].Address != bdf {
				t.Fatalf("functions: %+v", r.Functions)
			}
			got := r.Functions[1]
			if diff := cmp.Diff(tt.want, got.Findings); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			failed := false
			for _, f := range tt.want {
				failed = failed || f.Level == Fail
			}
			if got.Ready != tt.ready || r.OK != (!failed && !fails(r.Functions[0].Findings)) {
				t.Errorf("ready %v, and all well %v", got.Ready, r.OK)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	fail := []Finding{{Level: Fail}}
	for want, r := range map[string]Report{
		"no virtio-net function here; ports over vhost-user need nothing of the above": {},
		"1 of 1 virtio-net function ready; ports over vhost-user work":                 {Functions: []Function{{Ready: true}}},
		"1 of 2 virtio-net functions ready, 1 thing to mend; ports over vhost-user work": {
			Functions: []Function{{Ready: true}, {Findings: fail}}, Counts: Counts{Fail: 1},
		},
		"0 of 1 virtio-net function ready, 2 things to mend; ports over vhost-user work": {
			Functions: []Function{{Findings: append(fail, fail...)}}, Counts: Counts{Fail: 2},
		},
	} {
		if got := r.summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestMachineWithoutPCI(t *testing.T) {
	r, err := Examine(pci.Tree{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || len(r.Functions) != 0 {
		t.Errorf("a machine without PCI fails: %+v", r)
	}
}

// The names and the shape of the JSON are what scripts read.
func TestJSON(t *testing.T) {
	k := newKernel(t)
	k.Add(pcitest.Function{BDF: "0000:00:05.0", Vendor: 0x1af4, Device: 0x1000, Driver: "virtio-pci", Group: 2, Interface: "eth1"})
	r := examine(t, machineOf(k))
	r.Machine = r.Machine[:2]
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "ok": false,
  "summary": "0 of 2 virtio-net functions ready, 2 things to mend; ports over vhost-user work",
  "counts": {
    "ok": 15,
    "warn": 0,
    "fail": 2
  },
  "machine": [
    {
      "check": "iommu",
      "subject": "",
      "level": "ok",
      "text": "on, 1 group",
      "mend": ""
    },
    {
      "check": "module",
      "subject": "vfio",
      "level": "ok",
      "text": "loaded",
      "mend": ""
    }
  ],
  "functions": [
    {
      "address": "0000:00:04.0",
      "device": "Virtio 1.0 network device",
      "driver": "vfio-pci",
      "iommu_group": 2,
      "group_members": [
        "0000:00:05.0"
      ],
      "interfaces": [],
      "in_use": "",
      "numa_node": -1,
      "ready": false,
      "findings": [
        {
          "check": "driver",
          "subject": "",
          "level": "ok",
          "text": "bound to vfio-pci",
          "mend": ""
        },
        {
          "check": "group",
          "subject": "2",
          "level": "fail",
          "text": "the kernel drives others of the group: 0000:00:05.0 (virtio-pci); VFIO gives a group as a whole",
          "mend": "vionet devbind -b vfio-pci 0000:00:05.0"
        },
        {
          "check": "vfio",
          "subject": "/dev/vfio/2",
          "level": "ok",
          "text": "can be opened",
          "mend": ""
        }
      ]
    },
    {
      "address": "0000:00:05.0",
      "device": "Virtio network device",
      "driver": "virtio-pci",
      "iommu_group": 2,
      "group_members": [
        "0000:00:04.0"
      ],
      "interfaces": [
        "eth1"
      ],
      "in_use": "",
      "numa_node": -1,
      "ready": false,
      "findings": [
        {
          "check": "driver",
          "subject": "",
          "level": "fail",
          "text": "virtio-pci has it: it must be bound to vfio-pci",
          "mend": "vionet devbind -b vfio-pci 0000:00:05.0"
        }
      ]
    }
  ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
