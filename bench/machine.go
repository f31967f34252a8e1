package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// checkMachine says what is missing before anything is started.
func checkMachine(vionet string) error {
	if _, err := exec.LookPath("dpdk-testpmd"); err != nil {
		return fmt.Errorf("dpdk-testpmd is missing: apt-get install dpdk-dev, or scripts/deps.sh install")
	}
	if _, err := os.Stat(vionet); err != nil {
		return fmt.Errorf("%w: build it with make build", err)
	}
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("one processor: the two ends of the wire need one each")
	}
	return reserveHugepages(hugepages)
}

// machine is a line of what is measured on.
func machine() string {
	return fmt.Sprintf("%s, kernel %s, %s, %s", cpuModel(), kernelRelease(), runtime.Version(), dpdkVersion())
}

func kernelRelease() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

func dpdkVersion() string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", "dpdk-dev").Output()
	if err != nil {
		return "DPDK"
	}
	return "DPDK " + string(out)
}
