// Bench compares vionet with DPDK, end by end, and prints Markdown tables of
// paired ratios.
//
// Usage: go run ./scripts/bench [-vionet PATH] [-windows N] [-window D] [-tables NAMES] [-cells REGEXP]
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
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what the command line says.
type settings struct {
	vionet  string
	windows int
	window  time.Duration
	tables  []string // empty: all
	cells   *regexp.Regexp
}

func main() {
	var s settings
	flag.StringVar(&s.vionet, "vionet", "bin/vionet", "the vionet binary")
	flag.IntVar(&s.windows, "windows", 16, "windows for each contestant in a cell")
	flag.DurationVar(&s.window, "window", 250*time.Millisecond, "length of a window")
	names := flag.String("tables", "", "tables, separated by commas: "+strings.Join(tableNames(), ", ")+" (default all)")
	pattern := flag.String("cells", ".", "regular expression that selects cells, as guest.to.host.*packed")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var err error
	if s.cells, err = regexp.Compile(*pattern); err != nil {
		err = fmt.Errorf("-cells: %w", err)
	} else if *names != "" {
		s.tables = strings.Split(*names, ",")
	}
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func tableNames() (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

func (s settings) run(ctx context.Context) error {
	for _, name := range s.tables {
		if !slices.Contains(tableNames(), name) {
			return fmt.Errorf("-tables: no table %q: there are %s", name, strings.Join(tableNames(), ", "))
		}
	}
	if err := checkMachine(s.vionet); err != nil {
		return err
	}
	fmt.Printf("%s, kernel %s, %s, %s\n", cpuModel(), kernelRelease(), runtime.Version(), dpdkVersion())
	for _, t := range tables {
		if len(s.tables) == 0 || slices.Contains(s.tables, t.name) {
			if err := s.print(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// print measures the selected cells of a table.
func (s settings) print(ctx context.Context, t table) error {
	fmt.Printf("\n### %s\n\n", t.title)
	fmt.Printf("| topology | rings | %s Mpps | %s Mpps | ratio q1 | ratio median | ratio q3 | to reach |\n", t.against.name, t.of.name)
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, c := range t.cells {
		if !s.cells.MatchString(c.String()) {
			continue
		}
		r, err := contest{c, [2]contestant{t.against, t.of}, s.vionet, s.windows, s.window}.run(ctx)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		q1, median, q3 := quartiles(r.ratios)
		floor := ""
		if c.floor > 0 {
			floor = fmt.Sprint(c.floor)
		}
		fmt.Printf("| %s | %s | %.2f | %.2f | %.2f | **%.2f** | %.2f | %s |\n", c.topology.name, c.rings,
			medianOf(r.rates[0])/1e6, medianOf(r.rates[1])/1e6, q1, median, q3, floor)
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
