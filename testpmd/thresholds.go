package testpmd

import "math"

func thresholdCommands() []*command {
	return []*command{
		{section: portsSection, pattern: "port config all (txpt|txht|txwt|rxpt|rxht|rxwt) (value)", help: "Set the prefetch, host or write-back threshold of queues, which are kept and shown; virtio has none.", run: (*Console).setThreshold},
		{section: portsSection, pattern: "port config all (txfreet|txrst|rxfreet) (value)", help: "Set the number of free descriptors below which transmit queues take sent packets back; the others are kept and shown.", run: (*Console).setThreshold},
		{section: portsSection, pattern: "port config all drop-en (on|off)", help: "Kept and shown: frames without a buffer are dropped in any case.", run: (*Console).setDropEnable},
	}
}

func (c *Console) setThreshold(a args) {
	if c.anyStarted() {
		c.errorf("Please stop all ports first\n")
		return
	}
	rx, tx := &c.Options.RxThresholds, &c.Options.TxThresholds
	word, n := a[3], a.num(4)
	most := uint64(math.MaxUint8)
	if word == "txfreet" || word == "txrst" || word == "rxfreet" {
		most = math.MaxUint16
	}
	if n > most {
		c.errorf("%s %d invalid - must be >= 0 && <= %d\n", word, n, most)
		return
	}
	if word == "txfreet" && !c.checkTxFree(n) {
		return
	}
	*map[string]*int{
		"txpt": &tx.Prefetch, "txht": &tx.Host, "txwt": &tx.WriteBack, "txfreet": &tx.Free, "txrst": &tx.RS,
		"rxpt": &rx.Prefetch, "rxht": &rx.Host, "rxwt": &rx.WriteBack, "rxfreet": &rx.Free,
	}[word] = int(n)
}

// checkTxFree complains when a queue can never have so many free descriptors.
func (c *Console) checkTxFree(n uint64) bool {
	for _, p := range c.openPorts() {
		desc := c.Options.TxDesc
		if desc == 0 {
			desc = p.Info().TxDesc
		}
		if desc != 0 && n >= uint64(desc) {
			c.errorf("txfreet %d invalid - must be < %d (number of TXDs of port %d)\n", n, desc, p.id)
			return false
		}
	}
	return true
}

func (c *Console) setDropEnable(a args) {
	if c.anyStarted() {
		c.errorf("Please stop all ports first\n")
		return
	}
	c.Options.DropEnable = a.on(4)
}
