// Bench measures vionet and prints Markdown tables.
//
// Usage:
//
//	go run ./scripts/bench [flags]            vionet and DPDK, end by end, as paired ratios
//	go run ./scripts/bench [flags] txqueue    forwarding with and without a transmit buffer
//	go run ./scripts/bench [flags] scrape     sending with and without Prometheus looking on
//	go run ./scripts/bench [flags] sleep      the first frame after a pause, in each poll mode
//	go run ./scripts/bench [flags] zerocopy   sending from the application's own memory, and otherwise
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"vionet/scripts/bench/sender"
)

// settings are what the command line says.
type settings struct {
	turns
	vionet string
	tables []string // empty: all
	cells  *regexp.Regexp
}

// benchmarks are by the word that selects them.
var benchmarks = map[string]func(settings, context.Context) error{
	"":         settings.compare,
	"scrape":   settings.scrapes,
	"sleep":    settings.firstPackets,
	"txqueue":  settings.txQueue,
	"zerocopy": settings.zeroCopy,
}

func main() {
	var s settings
	flag.StringVar(&s.vionet, "vionet", "bin/vionet", "the vionet binary")
	flag.IntVar(&s.windows, "windows", 16, "windows for each contestant in a cell")
	flag.DurationVar(&s.window, "window", 250*time.Millisecond, "length of a window")
	names := flag.String("tables", "", "tables of the comparison with DPDK, separated by commas: "+strings.Join(tableNames(), ", ")+" (default all)")
	pattern := flag.String("cells", ".", "regular expression that selects cells, as guest.to.host.*packed")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := s.run(ctx, flag.Arg(0), *names, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs a benchmark, or is one of its senders.
func (s settings) run(ctx context.Context, name, tables, pattern string) (err error) {
	if name == sender.Command {
		return sender.Run(ctx, flag.Args()[1:])
	}
	benchmark, known := benchmarks[name]
	if !known {
		return fmt.Errorf("no benchmark %q: there are scrape, sleep, txqueue and zerocopy, and without a word the comparison with DPDK", name)
	}
	if s.cells, err = regexp.Compile(pattern); err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	if tables != "" {
		s.tables = strings.Split(tables, ",")
	}
	if err := checkMachine(s.vionet); err != nil {
		return err
	}
	fmt.Printf("%s, kernel %s, %s, %s\n", cpuModel(), kernelRelease(), runtime.Version(), dpdkVersion())
	return benchmark(s, ctx)
}

func tableNames() (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

// compare prints the tables of vionet and DPDK.
func (s settings) compare(ctx context.Context) error {
	for _, name := range s.tables {
		if !slices.Contains(tableNames(), name) {
			return fmt.Errorf("-tables: no table %q: there are %s", name, strings.Join(tableNames(), ", "))
		}
	}
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
		r, err := compete(ctx, s.turns, contest{c, [2]rival{t.against, t.of}, s.vionet}.starters()...)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		fmt.Printf("| %s | %s | %s | %s |\n", c.topology.name, c.rings, comparison(r[0], r[1]), bar(c.floor))
	}
	return nil
}
