package report

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestMachineIn(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const weaknesses = "sys/devices/system/cpu/vulnerabilities/"
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  Machine
	}{
		{"nothing can be read", nil, Machine{}},
		{"hardware", fstest.MapFS{
			"proc/cpuinfo":                file("processor\t: 0\nmodel name\t: Fast 1\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: Fast 2\n"),
			"sys/class/dmi/id/sys_vendor": file("Maker\n"),
			"proc/sys/kernel/osrelease":   file("6.1.0\n"),
		}, Machine{CPU: "Fast 1", Kernel: "6.1.0"}},
		{"a guest without names", fstest.MapFS{"proc/cpuinfo": file("flags : fpu hypervisor\n")}, Machine{Hypervisor: "a hypervisor"}},
		{"a guest", fstest.MapFS{
			"proc/cpuinfo":                                          file("flags : hypervisor\n"),
			"sys/class/dmi/id/sys_vendor":                           file("QEMU\n"),
			"sys/class/dmi/id/product_name":                         file("Standard PC\n"),
			"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": file("272\n"),
			weaknesses + "l1tf":                                     file("Not affected\n"),
			weaknesses + "spectre_v2":                               file("Mitigation: Retpolines\n"),
			weaknesses + "meltdown":                                 file("Mitigation: PTI\n"),
		}, Machine{Hypervisor: "QEMU Standard PC", Hugepages: 272, Mitigations: []string{"meltdown: Mitigation: PTI", "spectre_v2: Mitigation: Retpolines"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, machineIn(c.files)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
