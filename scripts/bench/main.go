// Bench compares vionet with DPDK's own virtio-user front end, on DPDK's vhost
// back end, and prints a Markdown table of paired ratios.
//
// Usage: go run ./scripts/bench [-vionet PATH] [-windows N] [-window D] [-cells REGEXP]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	vionet := flag.String("vionet", "bin/vionet", "the vionet binary")
	windows := flag.Int("windows", 20, "windows for each contestant in a cell")
	window := flag.Duration("window", 300*time.Millisecond, "length of a window")
	pattern := flag.String("cells", ".", "regular expression that selects cells, as guest.to.host.*packed")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *vionet, *windows, *window, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, vionet string, windows int, window time.Duration, pattern string) error {
	selected, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	if err := checkMachine(vionet); err != nil {
		return err
	}
	fmt.Printf("%s, kernel %s, %s, %s\n\n", cpuModel(), kernelRelease(), runtime.Version(), dpdkVersion())
	fmt.Println("| topology | rings | DPDK Mpps | vionet Mpps | ratio q1 | ratio median | ratio q3 | to reach |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, c := range cells {
		if !selected.MatchString(c.String()) {
			continue
		}
		r, err := contest{cell: c, vionet: vionet, windows: windows, window: window}.run(ctx)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		q1, median, q3 := quartiles(r.ratios)
		fmt.Printf("| %s | %s | %.2f | %.2f | %.2f | **%.2f** | %.2f | %.1f |\n", c.topology.name, c.rings,
			medianOf(r.dpdk)/1e6, medianOf(r.vionet)/1e6, q1, median, q3, c.floor)
	}
	return nil
}

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
