package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"

	"vionet/port"
	"vionet/testpmd"
)

func testpmdCommand() *cli.Command {
	return &cli.Command{
		Name:            "testpmd",
		Usage:           "the console: forward packets between ports and inspect them",
		ArgsUsage:       "[machine and device options] -- [console options]",
		Description:     testpmdHelp,
		SkipFlagParsing: true,
		HideHelp:        true,
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
				return cli.ShowSubcommandHelp(c)
			}
			eal, app, err := parseTestpmd(args)
			if err != nil {
				return err
			}
			ctx, cancel := untilSignal(c.Context)
			defer cancel()
			return runTestpmd(ctx, eal, app, os.Stdin, os.Stdout, os.Stderr)
		},
	}
}

// untilSignal gives a context that the first SIGINT or SIGTERM ends. Further
// ones change nothing, up to the very end of the process: the signals are
// never given back.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

const testpmdHelp = `Options have the names that DPDK's testpmd gives them.

Machine and devices:
  -l LIST               lcores, as 0,2-3; the first is for the console
  --lcores MAP          lcores and the processors they use, as 0@1,1@(2-3)
  --main-lcore N        the lcore for the console
  -a, --allow BDF[,ARGS]  use this PCI device (may be repeated)
  -b, --block BDF       do not use this PCI device (may be repeated)
  --no-pci              use no PCI device
  --vdev NAME[,ARGS]    make a virtual device (may be repeated)
  -m MB                 memory for buffers and rings
  --no-huge             plain pages
  --iova-mode va|pa     kind of device addresses
  --log-level LEVEL     or NAME:LEVEL (may be repeated)
  --log-format FORMAT   console or json
  --huge-dir, --in-memory, -n, --file-prefix, --single-file-segments and
  --no-telemetry are accepted and change nothing.

Console:
  -i, --interactive     ask for commands
  -a, --auto-start      forward before the first command
  --cmdline-file FILE   run the commands in FILE first
  --forward-mode MODE   io, mac, macswap, rxonly, txonly or csum
  --tx-first            send a burst before forwarding (not with -i)
  --stats-period N      print port statistics every N seconds (not with -i)
  --rxq N, --txq N      queues of each port
  --rxd N, --txd N      descriptors of each queue
  --burst N             packets in a burst
  --nb-cores N          forwarding cores
  --port-topology T     paired, chained or loop
  --rx-offloads MASK, --tx-offloads MASK
  --txpkts A[,B…]       segment lengths of generated packets
  --eth-peer PORT,MAC   who is behind the port (may be repeated)
  --total-num-mbufs N, --mbuf-size N
  --no-flush-rx         forward also what was received before start
  --mask-event intr_lsc say nothing when a link changes`

// parseTestpmd reads a command line in its two parts.
func parseTestpmd(args []string) (ealOptions, appOptions, error) {
	rest := []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		args, rest = args[:i], args[i+1:]
	}
	eal, err := parseEAL(args)
	if err != nil {
		return eal, appOptions{}, err
	}
	app, err := parseApp(rest, len(eal.forwardingCores()))
	return eal, app, err
}

// runTestpmd opens the ports, runs the console on them, and cleans up. It
// returns an error when start-up failed or forwarding broke down, and nil
// after every orderly end.
func runTestpmd(ctx context.Context, eal ealOptions, app appOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	log, err := newLogger(stderr, eal.LogFormat, eal.LogLevels)
	if err != nil {
		return err
	}
	ports, pool, cleanup, err := openPorts(eal, app, log)
	if err != nil {
		return err
	}
	defer cleanup()
	infos := make([]port.Info, len(ports))
	for i, p := range ports {
		infos[i] = p.Info()
	}
	if err := app.checkPorts(infos); err != nil {
		return err
	}
	// Forwarding goroutines never pause; the others need a place beside them.
	runtime.GOMAXPROCS(runtime.NumCPU() + len(eal.forwardingCores()))
	console, err := testpmd.New(testpmd.Config{
		Ports: ports, Pool: pool,
		Cores: eal.forwardingCores(), MainCore: eal.MainCore,
		Out: stdout, Err: stderr, Options: app.Options,
	})
	if err != nil {
		return err
	}
	return console.Run(ctx, stdin)
}
