package main

import (
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"strings"
	"time"

	"vionet/port"
	"vionet/testpmd"
	"vionet/testpmd/engine"
	"vionet/virtio"
)

// shareFlags are the options that say which ports and cores forward.
func (o *appOptions) shareFlags(cores int) []flag {
	list := func(name string, to *[]int) flag {
		return flag{names: []string{name}, value: true, set: func(v string) error {
			ids, ok := testpmd.ParseList(v)
			if !ok {
				return fmt.Errorf("%s %s invalid - must be numbers with commas between them", strings.TrimLeft(name, "-"), v)
			}
			*to = ids
			return nil
		}}
	}
	mask := func(name string, to *[]int) flag {
		return flag{names: []string{name}, value: true, set: func(v string) error {
			var set uint64
			if err := maskFlag(name, &set).set(v); err != nil {
				return err
			}
			*to = nil
			for ; set != 0; set &= set - 1 {
				*to = append(*to, bits.TrailingZeros64(set))
			}
			return nil
		}}
	}
	return []flag{
		intFlag("--nb-cores", 1, cores, &o.NbCores),
		intFlag("--nb-ports", 0, maxPorts, &o.NbPorts),
		list("--portlist", &o.PortList),
		mask("--portmask", &o.PortList),
		mask("--coremask", &o.CoreList),
	}
}

// dpdkRSS are the hash types of the words that --rss-ip and --rss-udp stand for.
const (
	rssIP  = virtio.HashIPv4 | virtio.HashIPv6 | virtio.HashIPv6Ex
	rssUDP = rssIP | virtio.HashUDPv4 | virtio.HashUDPv6 | virtio.HashUDPv6Ex
)

// offloadFlags are the options that ask for offloads and RSS.
func (o *appOptions) offloadFlags() []flag {
	const qinqStrip port.RxOffloads = 1 << 5
	rx := func(name string, offloads port.RxOffloads) flag {
		return flag{names: []string{name}, set: func(string) error { o.RxOffloads |= offloads; return nil }}
	}
	rss := func(name string, types virtio.HashTypes) flag {
		return flag{names: []string{name}, set: func(string) error { o.RSSTypes = types; return nil }}
	}
	return []flag{
		maskFlag("--rx-offloads", &o.RxOffloads),
		maskFlag("--tx-offloads", &o.TxOffloads),
		rx("--enable-rx-cksum", port.RxIPv4Cksum|port.RxUDPCksum|port.RxTCPCksum),
		rx("--enable-lro", port.RxTCPLRO),
		rx("--enable-scatter", port.RxScatter),
		rx("--enable-hw-vlan", port.RxVLANStrip|port.RxVLANFilt|port.RxVLANExt),
		rx("--enable-hw-vlan-filter", port.RxVLANFilt),
		rx("--enable-hw-vlan-strip", port.RxVLANStrip),
		rx("--enable-hw-vlan-extend", port.RxVLANExt),
		rx("--enable-hw-qinq-strip", qinqStrip),
		rss("--disable-rss", 0),
		rss("--enable-rss", rssIP),
		rss("--rss-ip", rssIP),
		rss("--rss-udp", rssUDP),
	}
}

// thresholdFlags are the thresholds of queues.
func (o *appOptions) thresholdFlags() []flag {
	rx, tx := &o.RxThresholds, &o.TxThresholds
	return []flag{
		intFlag("--rxfreet", 0, math.MaxUint16, &rx.Free),
		intFlag("--rxpt", 0, math.MaxUint8, &rx.Prefetch),
		intFlag("--rxht", 0, math.MaxUint8, &rx.Host),
		intFlag("--rxwt", 0, math.MaxUint8, &rx.WriteBack),
		intFlag("--txfreet", 0, math.MaxUint16, &tx.Free),
		intFlag("--txrst", 0, math.MaxUint16, &tx.RS),
		intFlag("--txpt", 0, math.MaxUint8, &tx.Prefetch),
		intFlag("--txht", 0, math.MaxUint8, &tx.Host),
		intFlag("--txwt", 0, math.MaxUint8, &tx.WriteBack),
		boolFlag("--rx-drop-en --enable-drop-en", &o.DropEnable),
	}
}

// Bounds of generators and of mode noisy.
const (
	maxClones = 1 << 10
	maxHold   = 8192
	maxMillis = 1 << 30
	maxNoise  = 1 << 20
)

// generatorFlags are the options of the modes that make packets or noise.
func (o *appOptions) generatorFlags() []flag {
	noise := &o.Noise
	return []flag{
		boolFlag("--txonly-multi-flow", &o.MultiFlow),
		{names: []string{"--tx-ip"}, value: true, set: o.setTxIP},
		{names: []string{"--tx-udp"}, value: true, set: o.setTxUDP},
		intFlag("--flowgen-flows", 1, engine.MaxFlows, &o.Flows),
		intFlag("--flowgen-clones", 0, maxClones, &o.Clones),
		intFlag("--noisy-tx-sw-buffer-size", 0, maxHold, &noise.Hold),
		{names: []string{"--noisy-tx-sw-buffer-flushtime"}, value: true, set: func(v string) error {
			n, err := parseInt("noisy-tx-sw-buffer-flushtime", v, 0, maxMillis)
			noise.Flush = time.Duration(n) * time.Millisecond
			return err
		}},
		{names: []string{"--noisy-lkup-memory"}, value: true, set: func(v string) error {
			n, err := parseInt("noisy-lkup-memory", v, 0, maxNoise)
			noise.Memory = n << 20
			return err
		}},
		intFlag("--noisy-lkup-num-reads", 0, maxNoise, &noise.Reads),
		intFlag("--noisy-lkup-num-writes", 0, maxNoise, &noise.Writes),
		intFlag("--noisy-lkup-num-reads-writes", 0, maxNoise, &noise.ReadWrites),
	}
}

// setTxIP reads "SOURCE,DESTINATION", two IPv4 addresses.
func (o *appOptions) setTxIP(v string) error {
	source, destination, _ := strings.Cut(v, ",")
	for i, text := range []string{source, destination} {
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is4() {
			return fmt.Errorf("tx-ip %s invalid - must be two IPv4 addresses with a comma between them", v)
		}
		o.TxAddrs[i] = addr.As4()
	}
	return nil
}

// setTxUDP reads "SOURCE[,DESTINATION]", two ports that are the same unless
// both are given.
func (o *appOptions) setTxUDP(v string) error {
	source, destination, ok := strings.Cut(v, ",")
	if !ok {
		destination = source
	}
	for i, text := range []string{source, destination} {
		n, err := parseInt("tx-udp", text, 0, math.MaxUint16)
		if err != nil {
			return err
		}
		o.TxPorts[i] = uint16(n)
	}
	return nil
}
