package lab

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// tools are the words that Need knows, each with the programs behind it.
var tools = map[string][]string{
	"bash":    {"bash"},
	"groff":   {"groff"},
	"systemd": {"systemd-analyze", "systemctl", "/lib/systemd/systemd"},
	"qemu":    {"qemu-system-x86_64", "apt-get", "dpkg-deb", "go"},
	"build":   {"gcc", "make", "tar", "xz"},
	"dpdk":    {"dpdk-testpmd"},
	"net":     {"ip", "ethtool", "nsenter"},
	"curl":    {"curl"},
	"tshark":  {"tshark"},
	"ovs":     {"ovsdb-server", "ovsdb-tool", "ovs-vsctl", vswitchd},
}

// Full reports whether everything has to run: VIONET_FULL=1 in the
// environment.
func Full() bool { return os.Getenv("VIONET_FULL") == "1" }

// Need says what the test stands on: "qemu" (a guest and its kernel), "build"
// (a kernel module, see NoIOMMUModules), "dpdk" (dpdk-testpmd), "ovs" (Open
// vSwitch with DPDK), "net" (network namespaces and taps), the programs "bash",
// "curl", "groff", "systemd" and "tshark", and "root". With VIONET_FULL=1 a missing
// part fails the test; otherwise it skips it and gives the reason, and -short skips
// it always.
func Need(t testing.TB, parts ...string) {
	t.Helper()
	if testing.Short() && !Full() {
		t.Skipf("needs %s; skipped by -short", strings.Join(parts, ", "))
	}
	var missing []string
	for _, part := range parts {
		missing = append(missing, lacking(t, part)...)
	}
	switch {
	case len(missing) == 0:
	case Full():
		t.Fatalf("missing: %s; VIONET_FULL=1 allows no skip, see scripts/deps.sh install", strings.Join(missing, ", "))
	default:
		t.Skipf("missing: %s; see scripts/deps.sh install", strings.Join(missing, ", "))
	}
}

// lacking lists what one part wants and this machine has not.
func lacking(t testing.TB, part string) (missing []string) {
	t.Helper()
	if part == "root" {
		if os.Geteuid() != 0 {
			missing = append(missing, "root")
		}
		return missing
	}
	programs, known := tools[part]
	if !known {
		t.Fatalf("lab.Need knows no part %q", part)
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	return missing
}
