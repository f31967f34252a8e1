package testpmd

import (
	"fmt"
	"strings"

	"vionet/port"
	"vionet/testpmd/engine"
)

func fwdStatsCommands() []*command {
	return []*command{
		{section: displaySection, pattern: "show fwd stats all", help: "Show what forwarding did since it started.", run: func(c *Console, a args) { c.printFwdStats() }, json: (*Console).fwdStatsJSON},
		{section: displaySection, pattern: "clear fwd stats all", help: "Count forwarding from now on.", run: (*Console).clearFwdStats},
	}
}

// portTotals are the counters of a port in forwarding.
type portTotals struct {
	rx, tx, txDropped     uint64 // by all streams
	badIP, badL4          uint64 // found by the port, counted by mode csum
	batches, newFlows     uint64 // of mode flowbatch
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
			t.badIP += s.BadIPSum.Load()
			t.badL4 += s.BadL4Sum.Load()
			t.batches += s.Batches.Load()
			t.newFlows += s.NewFlows.Load()
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
		f = &forwarding{engine: c.mode, records: newRecords(c.Options)}
	}
	var b strings.Builder
	single := len(f.streams) <= len(f.ports)
	if !single {
		for _, s := range f.streams {
			f.writeStream(&b, s)
		}
	}
	var sum portTotals
	for _, id := range f.ports {
		t := f.totals(id, c.ports[id].Stats())
		sum.add(t)
		fmt.Fprintf(&b, "\n  ---------------------- Forward statistics for port %-2d ----------------------\n", id)
		t.writeRx(&b)
		if f.engine.Checks {
			fmt.Fprintf(&b, "  Bad-ipcsum: %-14d Bad-l4csum: %-14dBad-outer-l4csum: %-14d\n", t.badIP, t.badL4, 0)
			fmt.Fprintf(&b, "  Bad-outer-ipcsum: %-14d\n", 0)
		}
		if f.engine.Sorts {
			fmt.Fprintf(&b, "  Batches: %-14d New flows: %-14d\n", t.batches, t.newFlows)
		}
		if t.errors+t.noBuf > 0 {
			fmt.Fprintf(&b, "  RX-error: %d\n  RX-nombufs: %-14d\n", t.errors, t.noBuf)
		}
		t.writeTx(&b)
		if single {
			f.writeBursts(&b, id)
		}
		fmt.Fprintf(&b, "  %s\n", strings.Repeat("-", 76))
	}
	fmt.Fprintf(&b, "\n  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++\n")
	sum.writeRx(&b)
	sum.writeTx(&b)
	fmt.Fprintf(&b, "  %s\n", strings.Repeat("+", 76))
	packets := sum.rx
	if f.engine.Generates {
		packets = sum.tx
	}
	c.printf("%s%s%s", b.String(), f.records.cyclesText(f.engine, packets), captureText(c.capture))
}

// writeStream writes what a stream did, if it did anything.
func (f *forwarding) writeStream(b *strings.Builder, s *engine.Stream) {
	rx, tx, dropped := s.RxPackets.Load(), s.TxPackets.Load(), s.TxDropped.Load()
	if rx == 0 && tx == 0 && dropped == 0 {
		return
	}
	fmt.Fprintf(b, "\n  ------- Forward Stats for RX Port=%2d/Queue=%2d -> TX Port=%2d/Queue=%2d -------\n", s.RxPort, s.RxQueue, s.TxPort, s.TxQueue)
	fmt.Fprintf(b, "  RX-packets: %-14d TX-packets: %-14d TX-dropped: %-14d", rx, tx, dropped)
	if f.engine.Checks {
		fmt.Fprintf(b, "  RX- bad IP checksum: %-14d  Rx- bad L4 checksum: %-14d Rx- bad outer L4 checksum: %-14d\n", s.BadIPSum.Load(), s.BadL4Sum.Load(), 0)
		fmt.Fprintf(b, " RX- bad outer IP checksum: %-14d", 0)
	}
	fmt.Fprintf(b, "\n%s", f.records.bursts[s].text())
}

// writeBursts writes the bursts of the one stream that a port receives for, and
// of the one that it sends for.
func (f *forwarding) writeBursts(b *strings.Builder, id int) {
	for _, s := range f.streams {
		if record := f.records.bursts[s]; record != nil && s.RxPort == id {
			b.WriteString(record.rx.text("RX"))
		}
	}
	for _, s := range f.streams {
		if record := f.records.bursts[s]; record != nil && s.TxPort == id {
			b.WriteString(record.tx.text("TX"))
		}
	}
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
	c.fwd.records.reset()
	for _, id := range c.fwd.ports {
		c.fwd.rebase(id, c.ports[id].Stats())
	}
}
