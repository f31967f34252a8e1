package testpmd

import (
	"fmt"
	"strings"
)

func xstatsCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set xstats-hide-zero (on|off)", help: "Choose whether extended statistics leave counters out that are zero.", run: func(c *Console, a args) { c.hideZeros = a.on(2) }},
	}
}

func (c *Console) showXstats(p *portState) {
	var b strings.Builder
	fmt.Fprintf(&b, "###### NIC extended statistics for port %-2d\n", p.id)
	for _, x := range c.xstats(p) {
		fmt.Fprintf(&b, "%s: %d\n", x.name, x.value)
	}
	c.printf("%s", b.String())
}

// xstat is one extended statistic.
type xstat struct {
	name  string
	value uint64
}

// xstats lists the extended statistics of a port that are to be seen.
func (c *Console) xstats(p *portState) (list []xstat) {
	line := func(name string, n uint64) {
		if n > 0 || !c.hideZeros {
			list = append(list, xstat{name, n})
		}
	}
	s := p.Stats()
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
