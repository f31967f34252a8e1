package main

import (
	"fmt"
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
	maxMbufSize   = 65535
	maxStatPeriod = 1 << 30 // seconds
)

// parseApp reads the options behind "--". Cores is the number of cores that
// can forward.
func parseApp(args []string, cores int) (appOptions, error) {
	opts := appOptions{Options: testpmd.DefaultOptions(), MbufSize: mbuf.DefaultSize}
	var topology, txpkts string
	var txFirst, noFlush bool
	var period int
	var peers, masks []string
	flags := []flag{
		boolFlag("-i --interactive", &opts.Interactive),
		boolFlag("-a --auto-start", &opts.AutoStart),
		boolFlag("--tx-first", &txFirst),
		boolFlag("--no-flush-rx", &noFlush),
		stringFlag("--cmdline-file", &opts.CmdlineFile),
		{names: []string{"--forward-mode"}, value: true, set: opts.setMode},
		choiceFlag("--port-topology", &topology, "paired", "chained", "loop"),
		intFlag("--stats-period", 0, maxStatPeriod, &period),
		intFlag("--rxq", 1, maxQueues, &opts.RxQueues),
		intFlag("--txq", 1, maxQueues, &opts.TxQueues),
		intFlag("--rxd", 1, maxDesc, &opts.RxDesc),
		intFlag("--txd", 1, maxDesc, &opts.TxDesc),
		intFlag("--burst", 1, engine.MaxBurst, &opts.Burst),
		intFlag("--nb-cores", 1, cores, &opts.NbCores),
		intFlag("--total-num-mbufs", minMbufs, maxMbufs, &opts.TotalMbufs),
		intFlag("--mbuf-size", mbuf.Headroom+1, maxMbufSize, &opts.MbufSize),
		maskFlag("--rx-offloads", &opts.RxOffloads),
		maskFlag("--tx-offloads", &opts.TxOffloads),
		stringFlag("--txpkts", &txpkts),
		listFlag("--eth-peer", &peers),
		listFlag("--mask-event", &masks),
	}
	if err := parseFlags(args, flags); err != nil {
		return opts, err
	}
	opts.FlushRx = !noFlush
	opts.StatsPeriod = time.Duration(period) * time.Second
	if topology != "" {
		opts.Topology = testpmd.Topology(topology)
	}
	if txFirst {
		opts.TxFirst = 1
		if opts.Interactive {
			return opts, fmt.Errorf("--tx-first cannot be used on interactive mode")
		}
	}
	for _, m := range masks {
		if m != "intr_lsc" {
			return opts, fmt.Errorf("mask-event %s invalid - must be: intr_lsc", m)
		}
		opts.MuteLink = true
	}
	if err := opts.setPeers(peers); err != nil {
		return opts, err
	}
	return opts, opts.setTxPkts(txpkts)
}

func (o *appOptions) setMode(name string) error {
	if engine.ByName(name) == nil {
		var names []string
		for _, e := range engine.All {
			names = append(names, e.Name)
		}
		return fmt.Errorf("invalid %s packet forwarding mode - must be: %s", name, strings.Join(names, ", "))
	}
	o.Mode = name
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
	return nil
}
