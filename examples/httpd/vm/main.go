// Command vm fetches from the example's server in a guest: over vionet, with no
// kernel in the guest's network, and over the guest kernel's own driver and stack.
// It prints the rates and their ratios. make vm-httpd runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"

	"vionet/scripts/lab"
)

func main() {
	size := flag.Int64("size", 100_000_000, "bytes to fetch")
	rounds := flag.Int("rounds", 3, "how often to fetch them; the median counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var own float64
	for i, c := range contestants {
		rate, err := measure(ctx, c.name, c.cfg, *size, *rounds)
		if err != nil {
			log.Fatalf("%s: %v", c.name, err)
		}
		if i == 0 {
			own = rate
			continue
		}
		fmt.Printf("vionet is %.2f times as fast as %s\n", own/rate, c.name)
	}
}

// measure fetches size bytes rounds times, and 64 times a hundredth of that at
// once. It prints and gives the median rate in Mb/s.
func measure(ctx context.Context, name string, cfg lab.Config, size int64, rounds int) (rate float64, err error) {
	s, err := start(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer s.close()
	var rates []float64
	for range rounds {
		r, err := s.fetch(ctx, size)
		if err != nil {
			return 0, err
		}
		rates = append(rates, r*8/1e6)
	}
	const connections = 64
	if err := s.fetchMany(ctx, size/100, connections); err != nil {
		return 0, err
	}
	slices.Sort(rates)
	rate = rates[len(rates)/2]
	fmt.Printf("%-25s %4.0f Mb/s, %.0f to %.0f in %d times %d bytes; %d connections at once\n",
		name, rate, rates[0], rates[len(rates)-1], rounds, size, connections)
	return rate, nil
}
