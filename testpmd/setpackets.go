package testpmd

import (
	"slices"

	"vionet/testpmd/engine"
)

func packetCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set txpkts (x[,y]*)", help: "Set the lengths of the segments of generated packets.", run: (*Console).setTxPkts},
		{section: configSection, pattern: "set txsplit (policy)", help: "Choose how packets are cut into segments: off, on or rand.", run: (*Console).setTxSplit},
		{section: configSection, pattern: "set flowgen flows (num)", help: "Set the number of flows of mode flowgen, as --flowgen-flows does; from the next start on.", run: (*Console).setFlows},
		{section: configSection, pattern: "set txtimes (x[,y]*)", help: "Set the gaps between generated bursts and between packets, which are kept and shown; no port sends by the clock.", run: (*Console).setTxTimes},
		{section: configSection, pattern: "set rxpkts (x[,y]*)", help: "Set the lengths that received packets are cut at, which are kept and shown; no port cuts them.", run: func(c *Console, a args) { c.setRxCuts(a[2], "segment lengths", "length", &c.rxPkts) }},
		{section: configSection, pattern: "set rxoffs (x[,y]*)", help: "Set the offsets of the pieces of received packets, which are kept and shown; no port cuts them.", run: func(c *Console, a args) { c.setRxCuts(a[2], "segment offsets", "offset", &c.rxOffs) }},
	}
}

func (c *Console) setTxPkts(a args) {
	segs, ok := c.list("segment lengths", a[2], maxTxSegs)
	if !ok {
		return
	}
	if err := CheckTxSegs(segs, TxRoom(c.Pool)); err != nil {
		c.errorf("%v\n", err)
		return
	}
	c.Options.TxSegs = segs
}

func (c *Console) setFlows(a args) {
	n := a.num(3)
	if n < 1 || n > engine.MaxFlows {
		c.errorf("flowgen flows %d invalid - must be >= 1 && <= %d\n", n, engine.MaxFlows)
		return
	}
	c.Options.Flows = int(n)
	c.printf("Number of flows of mode flowgen set to %d\n", n)
}

// txSplits are the ways to cut packets into segments.
var txSplits = []string{"off", "on", "rand"}

func (c *Console) setTxSplit(a args) {
	if !slices.Contains(txSplits, a[2]) {
		c.errorf("unknown value: %q\n", a[2])
		return
	}
	c.txSplit = a[2]
}

func (c *Console) setTxTimes(a args) {
	if times, ok := c.list("tx times", a[2], len(c.txTimes)); ok {
		c.txTimes = [2]int{}
		copy(c.txTimes[:], times)
	}
}

// Bounds of cuts, testpmd's own.
const (
	maxRxCuts = 8
	maxRxCut  = 65535
)

func (c *Console) setRxCuts(word, what, name string, to *[]int) {
	cuts, ok := c.list(what, word, maxRxCuts)
	if !ok {
		return
	}
	for i, n := range cuts {
		if n > maxRxCut {
			c.errorf("%s[%d]=%d > UINT16_MAX - give up\n", name, i, n)
			return
		}
	}
	*to = cuts
}
