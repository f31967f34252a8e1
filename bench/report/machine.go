package report

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Machine is where a benchmark ran.
type Machine struct {
	CPU        string `json:"cpu"`                  // its model
	Processors int    `json:"processors"`           // that the system has
	Hypervisor string `json:"hypervisor,omitempty"` // as the firmware names it; "" on hardware
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	DPDK       string `json:"dpdk,omitempty"` // version of the package
	QEMU       string `json:"qemu,omitempty"`
	Hugepages  int    `json:"hugepages,omitempty"` // of 2 MiB, set aside
	// Mitigations are the kernel's words about each weakness of the processor,
	// those aside that it does not have, as "meltdown: Mitigation: PTI".
	Mitigations []string `json:"mitigations,omitempty"`
}

// ThisMachine looks at the machine under it. What cannot be found out is left empty.
func ThisMachine() Machine {
	m := machineIn(os.DirFS("/"))
	m.Processors = runtime.NumCPU()
	m.Go = runtime.Version()
	m.DPDK = said(`^\S+$`, "dpkg-query", "-W", "-f", "${Version}", "dpdk-dev")
	m.QEMU = said(`version (\S+)`, "qemu-system-x86_64", "--version")
	return m
}

// machineIn is what the files of proc and sysfs tell, root being above both.
func machineIn(root fs.FS) (m Machine) {
	cpu := content(root, "proc/cpuinfo")
	m.CPU = Field(cpu, "model name")
	if slices.Contains(strings.Fields(Field(cpu, "flags")), "hypervisor") {
		m.Hypervisor = "a hypervisor"
	}
	if vendor := content(root, "sys/class/dmi/id/sys_vendor"); m.Hypervisor != "" && vendor != "" {
		m.Hypervisor = strings.TrimSpace(vendor + " " + content(root, "sys/class/dmi/id/product_name"))
	}
	m.Kernel = content(root, "proc/sys/kernel/osrelease")
	m.Hugepages, _ = strconv.Atoi(content(root, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"))
	const weaknesses = "sys/devices/system/cpu/vulnerabilities"
	entries, _ := fs.ReadDir(root, weaknesses) // sorted by name
	for _, e := range entries {
		if words := content(root, path.Join(weaknesses, e.Name())); words != "Not affected" {
			m.Mitigations = append(m.Mitigations, e.Name()+": "+words)
		}
	}
	return m
}

// content is a file's text without white space around it, "" when it cannot be read.
func content(root fs.FS, name string) string {
	b, _ := fs.ReadFile(root, name)
	return strings.TrimSpace(string(b))
}

// Field is the first value of a key in lines of keys, colons and values.
func Field(text, key string) string {
	for line := range strings.Lines(text) {
		if k, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(k) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// said is the last group of the pattern's match in what a program prints, "" when it
// does not run or prints something else.
func said(pattern string, argv ...string) string {
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		return ""
	}
	match := regexp.MustCompile(pattern).FindStringSubmatch(strings.TrimSpace(string(out)))
	if match == nil {
		return ""
	}
	return match[len(match)-1]
}
