package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/testpmd"
	"vionet/testpmd/engine"
)

// appOptions is the second part of the command line, behind "--": what the
// console begins with and the size of its pool.
type appOptions struct {
	testpmd.Options
	TotalMbufs int // 0: as many as ports and cores need
	MbufSize   int // bytes of a buffer, headroom included
}

// Bounds of options.
const (
	maxQueues     = 65535
	maxDesc       = 65535
	maxPorts      = 32
	minMbufs      = 1025
	maxMbufs      = 1 << 28
	minPktLen     = 64
	maxMbufSize   = 65535
	maxStatPeriod = 1 << 30 // seconds
)

// parseApp reads the options behind "--". Cores is the number of cores that
// can forward.
func parseApp(args []string, cores int) (appOptions, error) {
	opts := appOptions{Options: testpmd.DefaultOptions(), MbufSize: mbuf.DefaultSize}
	var topology, txpkts, pollMode string
	var txFirst, noFlush, noLinkCheck, noStart bool
	var period int
	var peers, masks []string
	flags := []flag{
		boolFlag("-i --interactive", &opts.Interactive),
		boolFlag("-a --auto-start", &opts.AutoStart),
		boolFlag("--tx-first", &txFirst),
		boolFlag("--no-flush-rx", &noFlush),
		boolFlag("--disable-link-check", &noLinkCheck),
		boolFlag("--disable-device-start", &noStart),
		stringFlag("--cmdline-file", &opts.CmdlineFile),
		{names: []string{"--forward-mode"}, value: true, set: opts.setMode},
		choiceFlag("--port-topology", &topology, "paired", "chained", "loop"),
		choiceFlag("--poll-mode", &pollMode, testpmd.PollModes...),
		{names: []string{"--display-xstats"}, value: true, set: opts.setXstats},
		intFlag("--stats-period", 0, maxStatPeriod, &period),
		intFlag("--rxq", 1, maxQueues, &opts.RxQueues),
		intFlag("--txq", 1, maxQueues, &opts.TxQueues),
		intFlag("--rxd", 1, maxDesc, &opts.RxDesc),
		intFlag("--txd", 1, maxDesc, &opts.TxDesc),
		intFlag("--burst", 1, engine.MaxBurst, &opts.Burst),
		intFlag("--total-num-mbufs", minMbufs, maxMbufs, &opts.TotalMbufs),
		intFlag("--mbuf-size", mbuf.Headroom+1, maxMbufSize, &opts.MbufSize),
		intFlag("--max-pkt-len", minPktLen, maxMbufSize, &opts.MaxPktLen),
		boolFlag("--record-core-cycles", &opts.RecordCycles),
		boolFlag("--record-burst-stats", &opts.RecordBursts),
		stringFlag("--txpkts", &txpkts),
		listFlag("--eth-peer", &peers),
		{names: []string{"--eth-peers-configfile"}, value: true, set: opts.readPeers},
		listFlag("--mask-event", &masks),
	}
	flags = append(flags, opts.shareFlags(cores)...)
	flags = append(flags, opts.offloadFlags()...)
	flags = append(flags, opts.thresholdFlags()...)
	flags = append(flags, opts.generatorFlags()...)
	flags = append(flags, ignoredFlags(true, "--print-event", "--mbcache", "--rx-mq-mode", "--max-lro-pkt-size", "--socket-num", "--mp-alloc", "--portmap", "--eth-link-speed")...)
	flags = append(flags, ignoredFlags(false, "--no-lsc-interrupt", "--no-rmv-interrupt", "--no-mlockall", "--mlockall", "--numa", "--no-numa")...)
	if err := parseFlags(args, flags); err != nil {
		return opts, err
	}
	opts.FlushRx, opts.SkipLinkCheck, opts.KeepStopped = !noFlush, noLinkCheck, noStart
	opts.StatsPeriod = time.Duration(period) * time.Second
	if topology != "" {
		opts.Topology = testpmd.Topology(topology)
	}
	if pollMode != "" {
		opts.PollMode = testpmd.PollMode(pollMode)
	}
	if txFirst {
		opts.TxFirst = 1
		if opts.Interactive {
			return opts, fmt.Errorf("--tx-first cannot be used on interactive mode")
		}
	}
	if err := opts.setMasks(masks); err != nil {
		return opts, err
	}
	if err := opts.setPeers(peers); err != nil {
		return opts, err
	}
	return opts, opts.setTxPkts(txpkts)
}

// portEvents are the names of the events that --mask-event silences. Those of
// links are the only ones of virtio ports that people get tired of.
var portEvents = []string{"unknown", "queue_state", "intr_reset", "vf_mbox", "macsec", "intr_lsc", "intr_rmv", "dev_probed", "dev_released", "flow_aged", "err_recovering", "recovery_success", "recovery_failed", "all"}

func (o *appOptions) setMasks(masks []string) error {
	for _, m := range masks {
		if !slices.Contains(portEvents, m) {
			return fmt.Errorf("mask-event %s invalid - must be: %s", m, strings.Join(portEvents, ", "))
		}
		o.MuteLink = o.MuteLink || m == "intr_lsc" || m == "all"
	}
	return nil
}

func (o *appOptions) setXstats(list string) error {
	o.Xstats = strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
	if len(o.Xstats) == 0 {
		return fmt.Errorf("display-xstats %q invalid - must be names from show port xstats, with commas between", list)
	}
	return nil
}

func (o *appOptions) setMode(name string) error {
	mode := engine.ByName(name)
	if mode == nil {
		return fmt.Errorf("invalid %s packet forwarding mode - must be: %s", name, modeList())
	}
	o.Mode = mode.Name
	return nil
}

// modeList names the forwarding modes.
func modeList() string {
	var names []string
	for _, e := range engine.All {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

// readPeers takes the addresses behind ports from a file, one a line.
func (o *appOptions) readPeers(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("eth-peers-configfile: %w", err)
	}
	for i, addr := range strings.Fields(string(text)) {
		if i == maxPorts {
			return nil
		}
		mac, ok := testpmd.ParseMAC(addr)
		if !ok {
			return fmt.Errorf("invalid ethernet address: %s", addr)
		}
		o.Peers[i] = mac
	}
	return nil
}

// setPeers reads "port,MAC" for each.
func (o *appOptions) setPeers(list []string) error {
	for _, item := range list {
		id, addr, ok := strings.Cut(item, ",")
		if !ok {
			return fmt.Errorf("invalid eth-peer: %s", item)
		}
		n, err := parseInt("eth-peer", id, 0, maxPorts-1)
		if err != nil {
			return err
		}
		mac, ok := testpmd.ParseMAC(addr)
		if !ok {
			return fmt.Errorf("invalid ethernet address: %s", addr)
		}
		o.Peers[n] = mac
	}
	return nil
}

func (o *appOptions) setTxPkts(list string) error {
	if list != "" {
		segs, ok := testpmd.ParseList(list)
		if !ok {
			return fmt.Errorf("bad txpkts: %s - must be lengths >= 1 && <= %d", list, maxMbufSize)
		}
		o.TxSegs = segs
	}
	if err := testpmd.CheckTxSegs(o.TxSegs, o.MbufSize-mbuf.Headroom); err != nil {
		return fmt.Errorf("txpkts: %w", err)
	}
	return nil
}

// checkPorts holds the options against the ports that were opened.
func (o *appOptions) checkPorts(ports []port.Info) error {
	limits := []struct {
		name string
		n    int
	}{{"rxq", o.RxQueues}, {"txq", o.TxQueues}, {"rxd", o.RxDesc}, {"txd", o.TxDesc}}
	for id, info := range ports {
		if o.MaxPktLen > info.MaxRxPktLen {
			return fmt.Errorf("max-pkt-len %d invalid - must be <= %d (max_rx_pktlen of port %d)", o.MaxPktLen, info.MaxRxPktLen, id)
		}
		for _, l := range limits {
			if l.n == 0 {
				continue // the device's own
			}
			if complaint := testpmd.CheckLimit(l.name, uint64(l.n), id, info); complaint != "" {
				return fmt.Errorf("%s", complaint)
			}
		}
	}
	for id := range o.Peers {
		if id >= len(ports) {
			return fmt.Errorf("eth-peer %d invalid - there are %d ports", id, len(ports))
		}
	}
	if o.NbPorts > len(ports) {
		return fmt.Errorf("nb-ports %d invalid - must be >= 0 && <= %d", o.NbPorts, len(ports))
	}
	for _, id := range o.PortList {
		if id >= len(ports) {
			return fmt.Errorf("portlist %d invalid - there are %d ports", id, len(ports))
		}
	}
	return nil
}
