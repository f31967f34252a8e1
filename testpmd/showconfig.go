package testpmd

import (
	"cmp"
	"fmt"
	"strings"

	"vionet/testpmd/engine"
)

func showConfigCommands() []*command {
	return []*command{
		{section: displaySection, pattern: "show config (rxtx|cores|fwd|rxoffs|rxpkts|rxhdrs|txpkts|txtimes)", help: "Show what forwarding will do: queues, cores, the way of the packets, the segments of packets.", run: (*Console).showConfig, json: (*Console).configJSON},
	}
}

func (c *Console) showConfig(a args) {
	switch a[2] {
	case "rxtx":
		c.printQueues()
	case "cores":
		var b strings.Builder
		for _, core := range c.fwdCores[:c.Options.NbCores] {
			fmt.Fprintf(&b, " %d", core.ID)
		}
		c.printf("List of forwarding lcores: %s\n", b.String())
	case "fwd":
		c.printForwarding()
	case "txpkts":
		c.printf("Number of segments: %d\nSegment sizes: %s\nSplit packet: %s\n", len(c.Options.TxSegs), joined(c.Options.TxSegs), c.txSplit)
	case "txtimes":
		c.printf("Interburst gap: %d\nIntraburst gap: %d\n", c.txTimes[0], c.txTimes[1])
	case "rxpkts":
		c.printCuts("segments", "Segment sizes", c.rxPkts)
	case "rxoffs":
		c.printCuts("offsets", "Segment offsets", c.rxOffs)
	case "rxhdrs":
		c.printCuts("segments", "", nil)
	}
}

// printCuts shows what received packets are cut by.
func (c *Console) printCuts(what, title string, cuts []int) {
	c.printf("Number of %s: %d\n", what, len(cuts))
	if len(cuts) > 0 {
		c.printf("%s: %s\n", title, joined(cuts))
	}
}

// withRetry is what stands behind the mode's name.
func (c *Console) withRetry() string {
	if c.retry {
		return " with retry"
	}
	return ""
}

// printForwarding shows which core takes packets from where to where.
func (c *Console) printForwarding() {
	links := c.links()
	n := c.nbWorkers(len(links))
	var b strings.Builder
	fmt.Fprintf(&b, "%s packet forwarding%s - ports=%d - cores=%d - streams=%d - NUMA support enabled, MP allocation mode: native\n", c.mode.Name, c.withRetry(), c.nbPorts, n, len(links))
	if c.retry {
		fmt.Fprintf(&b, "TX retry num: %d, delay between TX retries: %dus\n", c.retries, c.delay.Microseconds())
	}
	if c.txBuffer.Size > 0 {
		b.WriteString(c.txBufferText())
	}
	if c.Options.sleeps() {
		fmt.Fprintf(&b, "poll mode: %s\n", c.Options.pollText())
	}
	for k := range n {
		own := share(links, k, n)
		fmt.Fprintf(&b, "Logical Core %d (socket 0) forwards packets on %d streams:\n", c.fwdCores[k].ID, len(own))
		for _, l := range own {
			peer := c.ports[l.txPort].peer
			fmt.Fprintf(&b, "  RX P=%d/Q=%d (socket 0) -> TX P=%d/Q=%d (socket 0) peer=%s\n", l.rxPort, l.rxQueue, l.txPort, l.txQueue, formatMAC(peer[:]))
		}
	}
	c.printf("%s\n", b.String())
}

// portText is what "show config rxtx" shows of a port.
const portText = `  port %d: RX queue number: %d Tx queue number: %d
    Rx offloads=0x%x Tx offloads=0x%x
    RX queue: 0
      RX desc=%d - RX free threshold=%d
      RX threshold registers: pthresh=%d hthresh=%d  wthresh=%d
      RX Offloads=0x%x
    TX queue: 0
      TX desc=%d - TX free threshold=%d
      TX threshold registers: pthresh=%d hthresh=%d  wthresh=%d
      TX offloads=0x%x - TX RS bit threshold=%d
`

// printQueues shows what the queues of the ports are set to.
func (c *Console) printQueues() {
	opts := c.Options
	c.printf("  %s packet forwarding%s packets/burst=%d\n", c.mode.Name, c.withRetry(), opts.Burst)
	if c.mode == engine.TxOnly || c.mode == engine.FlowGen {
		c.printf("  packet len=%d - nb packet segments=%d\n", sum(opts.TxSegs), len(opts.TxSegs))
	}
	if c.mode == engine.FlowGen {
		c.printf("  nb flows=%d - nb clones=%d\n", cmp.Or(opts.Flows, engine.DefaultFlows), opts.Clones)
	}
	c.printf("  nb forwarding cores=%d - nb forwarding ports=%d\n", opts.NbCores, c.nbPorts)
	rx, tx := opts.RxThresholds, opts.TxThresholds
	for _, p := range c.openPorts() {
		c.printf(portText, p.id, opts.RxQueues, opts.TxQueues, uint64(p.rxOffloads), uint64(p.txOffloads),
			cmp.Or(p.rxQueues[0].ring, opts.RxDesc), rx.Free, rx.Prefetch, rx.Host, rx.WriteBack, uint64(p.rxQueueOffloads[0]),
			cmp.Or(p.txQueues[0].ring, opts.TxDesc), tx.Free, tx.Prefetch, tx.Host, tx.WriteBack, uint64(p.txQueueOffloads[0]), tx.RS)
	}
}

func sum(list []int) int {
	total := 0
	for _, n := range list {
		total += n
	}
	return total
}

func joined(list []int) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, fmt.Sprint(n))
	}
	return strings.Join(texts, ",")
}
