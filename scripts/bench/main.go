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

// cell is one line of the table.
type cell struct {
	name      string
	hostMode  string // the host's forwarding mode
	guestMode string // the front ends'
	counter   string // what the host counts
	mergeable bool
	floor     float64 // the ratio to reach
}

var cells = []cell{
	{"guest to host", "rxonly", "txonly", "RX-packets", false, 1.5},
	{"guest to host", "rxonly", "txonly", "RX-packets", true, 1.5},
	{"host to guest", "txonly", "rxonly", "TX-packets", false, 1.1},
	{"host to guest", "txonly", "rxonly", "TX-packets", true, 1.1},
}

func main() {
	vionet := flag.String("vionet", "bin/vionet", "the vionet binary")
	windows := flag.Int("windows", 20, "windows for each contestant in a cell")
	window := flag.Duration("window", 300*time.Millisecond, "length of a window")
	pattern := flag.String("cells", ".", "regular expression that selects cells by name and mergeable=on|off")
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
	fmt.Println("| 64 B | mergeable | DPDK Mpps | vionet Mpps | ratio q1 | ratio median | ratio q3 | to reach |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, c := range cells {
		if !selected.MatchString(fmt.Sprintf("%s mergeable=%s", c.name, onOff(c.mergeable))) {
			continue
		}
		r, err := contest{cell: c, vionet: vionet, windows: windows, window: window}.run(ctx)
		if err != nil {
			return fmt.Errorf("%s, mergeable %s: %w", c.name, onOff(c.mergeable), err)
		}
		q1, median, q3 := quartiles(r.ratios)
		fmt.Printf("| %s | %s | %.2f | %.2f | %.2f | **%.2f** | %.2f | %.1f |\n", c.name, onOff(c.mergeable),
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

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
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
	out, _ := exec.Command("dpdk-testpmd", "--version").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if i := strings.Index(line, "DPDK "); i >= 0 {
			return strings.TrimSpace(strings.Trim(line[i:], "'\n"))
		}
	}
	return "DPDK"
}
