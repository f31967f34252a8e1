package testpmd

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/port"
)

func xstatsCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set xstats-hide-zero (on|off)", help: "Choose whether extended statistics leave counters out that are zero.", run: func(c *Console, a args) { c.hideZeros = a.on(2) }},
	}
}

func (c *Console) showXstats(p *portState) {
	var b strings.Builder
	fmt.Fprintf(&b, "###### NIC extended statistics for port %-2d\n", p.id)
	for _, x := range c.seenXstats(p) {
		fmt.Fprintf(&b, "%s: %d\n", x.name, x.value)
	}
	c.printf("%s", b.String())
}

// xstat is one extended statistic.
type xstat struct {
	name  string
	value uint64
}

// seenXstats lists the extended statistics of a port that are to be seen.
func (c *Console) seenXstats(p *portState) []xstat {
	return slices.DeleteFunc(xstats(p.Stats()), func(x xstat) bool { return c.hideZeros && x.value == 0 })
}

// xstats lists the extended statistics of a port.
func xstats(s port.Stats) (list []xstat) {
	line := func(name string, n uint64) { list = append(list, xstat{name, n}) }
	line("rx_good_packets", s.RxPackets)
	line("tx_good_packets", s.TxPackets)
	line("rx_good_bytes", s.RxBytes)
	line("tx_good_bytes", s.TxBytes)
	line("rx_missed_errors", s.RxMissed)
	line("rx_errors", s.RxErrors)
	line("tx_errors", s.TxErrors)
	line("rx_mbuf_allocation_errors", s.RxNoBuf)
	for i, q := range s.Rx {
		line(fmt.Sprintf("rx_q%d_good_packets", i), q.Packets)
		line(fmt.Sprintf("rx_q%d_good_bytes", i), q.Bytes)
		line(fmt.Sprintf("rx_q%d_errors", i), q.Errors)
	}
	for i, q := range s.Tx {
		line(fmt.Sprintf("tx_q%d_good_packets", i), q.Packets)
		line(fmt.Sprintf("tx_q%d_good_bytes", i), q.Bytes)
	}
	return list
}

// chosenXstats are those of list that Options.Xstats names, in its order.
func (c *Console) chosenXstats(list []xstat) (chosen []xstat) {
	for _, name := range c.Options.Xstats {
		if i := slices.IndexFunc(list, func(x xstat) bool { return x.name == name }); i >= 0 {
			chosen = append(chosen, list[i])
		}
	}
	return chosen
}

// checkXstats complains of names in Options.Xstats that a port does not know.
// Queues that the port has not got yet have no statistics.
func (c *Console) checkXstats(p *portState) {
	known := c.chosenXstats(xstats(p.Stats()))
	for _, name := range c.Options.Xstats {
		if !slices.ContainsFunc(known, func(x xstat) bool { return x.name == name }) {
			c.errorf("No xstat '%s' on port %d - skip it %d\n", name, p.id, unix.ENOENT)
		}
	}
}

// xstatsTable is what "show port stats" says of the chosen statistics: what
// they are, and how fast they grew since last. It is empty if there are none.
func (c *Console) xstatsTable(now, last showing) string {
	chosen, before := c.chosenXstats(xstats(now.stats)), c.chosenXstats(xstats(last.stats))
	if len(chosen) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%36s%34s\n", "Value", "Rate (since last show)")
	for _, x := range chosen {
		rate := uint64(0)
		if i := slices.IndexFunc(before, func(y xstat) bool { return y.name == x.name }); i >= 0 {
			rate = last.rate(x.value, before[i].value, now.at)
		}
		fmt.Fprintf(&b, "  %-25s%12d %15d\n", x.name, x.value, rate)
	}
	return b.String()
}
