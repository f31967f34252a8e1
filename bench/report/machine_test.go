package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMachineBelow(t *testing.T) {
	tree := func(files map[string]string) string {
		root := t.TempDir()
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return root
	}
	const weaknesses = "sys/devices/system/cpu/vulnerabilities/"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Machine
	}{
		{"nothing can be read", nil, Machine{}},
		{"hardware", map[string]string{
			"proc/cpuinfo":                "processor\t: 0\nmodel name\t: Fast 1\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: Fast 2\n",
			"sys/class/dmi/id/sys_vendor": "Maker\n",
			"proc/sys/kernel/osrelease":   "6.1.0\n",
		}, Machine{CPU: "Fast 1", Kernel: "6.1.0"}},
		{"a guest without names", map[string]string{"proc/cpuinfo": "flags : fpu hypervisor\n"}, Machine{Hypervisor: "a hypervisor"}},
		{"a guest", map[string]string{
			"proc/cpuinfo":                                          "flags : hypervisor\n",
			"sys/class/dmi/id/sys_vendor":                           "QEMU\n",
			"sys/class/dmi/id/product_name":                         "Standard PC\n",
			"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "272\n",
			weaknesses + "l1tf":                                     "Not affected\n",
			weaknesses + "spectre_v2":                               "Mitigation: Retpolines\n",
			weaknesses + "meltdown":                                 "Mitigation: PTI\n",
		}, Machine{Hypervisor: "QEMU Standard PC", Hugepages: 272, Mitigations: []string{"meltdown: Mitigation: PTI", "spectre_v2: Mitigation: Retpolines"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, machineBelow(tree(c.files))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
