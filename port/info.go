package port

import (
	"cmp"
	"fmt"
	"strings"
)

// String is what people want to know of a port at a glance, in a few lines, of
// which the first is the name, the driver, the address and the MTU in bytes.
func (i Info) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) %v, MTU %d", i.Name, i.Driver, i.MAC, i.MTU)
	line := func(name, text string) { fmt.Fprintf(&b, "\n  %-11s %s", name, text) }
	if i.Devargs != "" {
		line("arguments", i.Devargs)
	}
	if len(i.Offered) > 0 {
		line("offered", strings.Join(i.Offered, " "))
		line("negotiated", cmp.Or(strings.Join(i.Negotiated, " "), "nothing yet"))
	}
	line("receive", queues(i.RxQueues, i.RxDesc, i.Paths.Rx))
	line("transmit", queues(i.TxQueues, i.TxDesc, i.Paths.Tx))
	if i.IOVA != "" {
		line("addresses", i.IOVA)
	}
	return b.String()
}

// queues describes one side of a port.
func queues(n, size int, path Path) string {
	text := "1 queue"
	if n != 1 {
		text = fmt.Sprintf("%d queues", n)
	}
	if size > 0 {
		text += fmt.Sprintf(" of %d descriptors", size)
	}
	if path.Name != "" {
		text += ", " + path.String()
	}
	return text
}

// String gives the path with its reason, and what would make it simpler.
func (p Path) String() string {
	text := p.Name + ": " + p.Reason
	if p.Unlock != "" {
		text += " (simpler: " + p.Unlock + ")"
	}
	return text
}
