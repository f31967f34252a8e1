package testpmd

import (
	"fmt"
	"strings"

	"vionet/port"
)

func fwdStatsCommands() []*command {
	return []*command{
		{section: displaySection, pattern: "show fwd stats all", help: "Show what forwarding did since it started.", run: func(c *Console, a args) { c.printFwdStats() }},
		{section: displaySection, pattern: "clear fwd stats all", help: "Count forwarding from now on.", run: (*Console).clearFwdStats},
	}
}

// portTotals are the counters of a port in forwarding.
type portTotals struct {
	rx, tx, txDropped     uint64 // by all streams
	missed, errors, noBuf uint64 // by the port itself
}

func (t *portTotals) add(u portTotals) {
	t.rx += u.rx
	t.tx += u.tx
	t.txDropped += u.txDropped
	t.missed += u.missed
}

// totals adds up the streams of a port and what the port lost since base.
func (f *forwarding) totals(id int, now port.Stats) portTotals {
	base := f.base[id]
	t := portTotals{
		missed: since(now.RxMissed, base.RxMissed),
		errors: since(now.RxErrors, base.RxErrors),
		noBuf:  since(now.RxNoBuf, base.RxNoBuf),
	}
	for _, s := range f.streams {
		if s.RxPort == id {
			t.rx += s.RxPackets.Load()
		}
		if s.TxPort == id {
			t.tx += s.TxPackets.Load()
			t.txDropped += s.TxDropped.Load()
		}
	}
	return t
}

// since is the growth of a counter that may have been reset in between.
func since(now, base uint64) uint64 {
	if now < base {
		return now
	}
	return now - base
}

// printFwdStats prints each stream where there are more than ports, each
// port, and the sum.
func (c *Console) printFwdStats() {
	f := c.fwd
	if f == nil {
		f = &forwarding{engine: c.mode}
	}
	var b strings.Builder
	if len(f.streams) > len(f.ports) {
		for _, s := range f.streams {
			rx, tx, dropped := s.RxPackets.Load(), s.TxPackets.Load(), s.TxDropped.Load()
			if rx == 0 && tx == 0 && dropped == 0 {
				continue
			}
			fmt.Fprintf(&b, "\n  ------- Forward Stats for RX Port=%2d/Queue=%2d -> TX Port=%2d/Queue=%2d -------\n", s.RxPort, s.RxQueue, s.TxPort, s.TxQueue)
			fmt.Fprintf(&b, "  RX-packets: %-14d TX-packets: %-14d TX-dropped: %-14d\n", rx, tx, dropped)
		}
	}
	var sum portTotals
	for _, id := range f.ports {
		t := f.totals(id, c.ports[id].Stats())
		sum.add(t)
		fmt.Fprintf(&b, "\n  ---------------------- Forward statistics for port %-2d ----------------------\n", id)
		t.writeRx(&b)
		if f.engine.Checks {
			// Ports drop or pass on what has a bad checksum; they never mark it.
			fmt.Fprintf(&b, "  Bad-ipcsum: %-14d Bad-l4csum: %-14dBad-outer-l4csum: %-14d\n", 0, 0, 0)
			fmt.Fprintf(&b, "  Bad-outer-ipcsum: %-14d\n", 0)
		}
		if t.errors+t.noBuf > 0 {
			fmt.Fprintf(&b, "  RX-error: %d\n  RX-nombufs: %-14d\n", t.errors, t.noBuf)
		}
		t.writeTx(&b)
		fmt.Fprintf(&b, "  %s\n", strings.Repeat("-", 76))
	}
	fmt.Fprintf(&b, "\n  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++\n")
	sum.writeRx(&b)
	sum.writeTx(&b)
	fmt.Fprintf(&b, "  %s\n", strings.Repeat("+", 76))
	c.printf("%s", b.String())
}

func (t portTotals) writeRx(b *strings.Builder) {
	fmt.Fprintf(b, "  RX-packets: %-14d RX-dropped: %-14dRX-total: %d\n", t.rx, t.missed, t.rx+t.missed)
}

func (t portTotals) writeTx(b *strings.Builder) {
	fmt.Fprintf(b, "  TX-packets: %-14d TX-dropped: %-14dTX-total: %d\n", t.tx, t.txDropped, t.tx+t.txDropped)
}

func (c *Console) clearFwdStats(args) {
	if c.fwd == nil {
		return
	}
	for _, s := range c.fwd.streams {
		s.Reset()
	}
	for _, id := range c.fwd.ports {
		c.fwd.rebase(id, c.ports[id].Stats())
	}
}
