package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
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
		BashComplete:    completeTestpmd,
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
				return cli.ShowSubcommandHelp(c)
			}
			eal, app, err := parseTestpmd(args)
			if err != nil {
				return err
			}
			app.HistoryFile = historyFile()
			var running consoleRef
			ctx, cancel := untilSignal(c.Context, running.interrupt)
			defer cancel()
			return runTestpmd(ctx, &running, eal, app, os.Stdin, os.Stdout, os.Stderr)
		},
	}
}

// consoleRef is the console once it runs.
type consoleRef struct {
	atomic.Pointer[testpmd.Console]
}

// interrupt ends what the console is busy with, and reports whether it was.
func (r *consoleRef) interrupt() bool {
	console := r.Load()
	return console != nil && console.Interrupt()
}

// untilSignal gives a context that SIGTERM ends, and SIGINT unless it ended
// something smaller. Further ones change nothing, up to the very end of the
// process: the signals are never given back.
func untilSignal(parent context.Context, interrupt func() bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case s := <-signals:
				if s == os.Interrupt && interrupt() {
					continue
				}
				cancel()
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// historyFile is where lines that were typed are kept from one run to the next;
// "" when nobody's home is known.
func historyFile() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "vionet", "testpmd-history")
}

var testpmdHelp = `Options have the names that DPDK's testpmd gives them.

Machine and devices:
  -l LIST               lcores, as 0,2-3; the first is for the console
  --lcores MAP          lcores and the processors they use, as 0@1,1@(2-3)
  --main-lcore N        the lcore for the console
  -a, --allow BDF[,ARGS]  use this PCI device (may be repeated)
  -b, --block BDF       do not use this PCI device (may be repeated)
  --no-pci              use no PCI device
  --vdev NAME[,ARGS]    make a virtual device (may be repeated); names begin with
                        net_virtio_user  front end of vhost-user: path=SOCKET
                        net_vhost        back end of vhost-user: iface=SOCKET
                        net_tap          interface of the kernel: iface=NAME
                        net_ring         cable to another port: peer=NAME
                        net_pcap         capture files: rx_pcap=, tx_pcap=
                        net_null         takes all, gives frames of size=
  -m MB                 memory for buffers and rings
  --no-huge             plain pages
  --iova-mode va|pa     kind of device addresses
  --log-level LEVEL     or NAME:LEVEL (may be repeated)
  --log-format FORMAT   console or json
  --metrics [ADDRESS:]PORT  answer Prometheus there at /metrics; the address is
                        127.0.0.1 unless it is written out
  --huge-dir, --in-memory, -n, --file-prefix, --single-file-segments and
  --no-telemetry are accepted and change nothing.

Console:
  -i, --interactive     ask for commands
  -a, --auto-start      forward before the first command
  --cmdline-file FILE   run the commands in FILE first
  --tx-first            send a burst before forwarding (not with -i)
  --stats-period N      print port statistics every N seconds (not with -i)
  --display-xstats LIST   extended statistics to show with port statistics
  --disable-device-start  leave the ports stopped
  --disable-link-check  say nothing of links when ports start and stop

Ports:
  --rxq N, --txq N      queues of each port
  --rxd N, --txd N      descriptors of each queue
  --max-pkt-len N       length of the longest frame
  --rx-offloads MASK, --tx-offloads MASK
  --enable-rx-cksum, --enable-lro, --enable-scatter, --enable-hw-vlan,
  --enable-hw-vlan-filter, --enable-hw-vlan-strip, --enable-hw-vlan-extend,
  --enable-hw-qinq-strip
  --disable-rss, --enable-rss, --rss-ip, --rss-udp
  --rxfreet, --rxpt, --rxht, --rxwt, --txfreet, --txrst, --txpt, --txht,
  --txwt N              thresholds of queues
  --total-num-mbufs N, --mbuf-size N

Forwarding:
  --forward-mode MODE   ` + modeList() + `
  --port-topology T     paired, chained or loop
  --nb-cores N, --coremask MASK      forwarding cores
  --nb-ports N, --portlist LIST, --portmask MASK  forwarding ports
  --burst N             packets in a burst
  --poll-mode MODE      busy, adaptive (sleep after a while without packets)
                        or interrupt (sleep at once)
  --no-flush-rx         forward also what was received before start
  --eth-peer PORT,MAC   who is behind the port (may be repeated)
  --eth-peers-configfile FILE  the same, an address a line
  --txpkts A[,B…]       segment lengths of generated packets
  --tx-ip S,D, --tx-udp S[,D], --txonly-multi-flow  what mode txonly makes
  --flowgen-flows N, --flowgen-clones N
  --noisy-tx-sw-buffer-size N, --noisy-tx-sw-buffer-flushtime MS,
  --noisy-lkup-memory MB, --noisy-lkup-num-reads N,
  --noisy-lkup-num-writes N, --noisy-lkup-num-reads-writes N
  --record-core-cycles, --record-burst-stats
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
func runTestpmd(ctx context.Context, running *consoleRef, eal ealOptions, app appOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	log, err := newLogs(stderr, eal.LogFormat, eal.LogLevels)
	if err != nil {
		return err
	}
	var m *metricsServer
	if eal.Metrics != "" {
		if m, err = listenMetrics(eal.Metrics, log.Logger); err != nil {
			return err
		}
		defer m.close()
	}
	s, err := openSession(ctx, eal, app, log.Logger)
	if err != nil {
		return err
	}
	defer s.close()
	infos := make([]port.Info, len(s.ports))
	for i, p := range s.ports {
		infos[i] = p.Info()
	}
	if err := app.checkPorts(infos); err != nil {
		return err
	}
	runtime.GOMAXPROCS(threads(runtime.NumCPU(), len(eal.forwardingCores())))
	cfg := testpmd.Config{
		Ports: slices.Clone(s.ports), Pool: s.pool, Attach: s.attach, Detach: s.detach,
		SetLog: log.setNumbered, LogLevels: log.list,
		Cores: eal.forwardingCores(), MainCore: eal.MainCore,
		Out: stdout, Err: stderr, Options: app.Options,
	}
	if m != nil {
		cfg.Opened, cfg.Closed = m.opened, m.ports.Remove
	}
	console, err := testpmd.New(cfg)
	if err != nil {
		return err
	}
	if m != nil {
		m.serve(s.pool, console)
	}
	running.Store(console)
	return console.Run(ctx, stdin)
}

// threads is how many goroutines may run at once. Those that forward never pause, and
// the others need a place beside them. On a single processor all of them take turns
// anyway, and do so quicker within one thread: see testpmd's workers.
func threads(processors, forwarding int) int {
	if processors == 1 {
		return 1
	}
	return processors + forwarding
}
