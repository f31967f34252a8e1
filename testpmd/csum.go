package testpmd

import "vionet/port"

// layer is a checksum that mode csum fills in.
type layer struct {
	word, name string
	refused    string // the name in a refusal
	offload    port.TxOffloads
}

// txOuterIPv4Cksum and txOuterUDPCksum are offloads for tunnels; no port
// here has them.
const (
	txOuterIPv4Cksum port.TxOffloads = 1 << 7
	txOuterUDPCksum  port.TxOffloads = 1 << 20
)

var layers = []layer{
	{"ip", "IP", "IP", port.TxIPv4Cksum},
	{"udp", "UDP", "UDP", port.TxUDPCksum},
	{"tcp", "TCP", "TCP", port.TxTCPCksum},
	{"sctp", "SCTP", "SCTP", port.TxSCTPCksum},
	{"outer-ip", "Outer-Ip", "Outer IP", txOuterIPv4Cksum},
	{"outer-udp", "Outer-Udp", "Outer UDP", txOuterUDPCksum},
}

func csumCommands() []*command {
	return []*command{
		{section: configSection, pattern: "csum set (ip|udp|tcp|sctp|outer-ip|outer-udp) (hw|sw) (port_id)", help: "Choose whether the device or mode csum fills in this checksum of packets sent through the port.", run: (*Console).csumSet},
		{section: configSection, pattern: "csum show (port_id)", help: "Show who fills in which checksum.", run: (*Console).csumShow},
		{section: configSection, pattern: "csum parse-tunnel (on|off) (port_id)", help: "Choose whether mode csum looks at the headers inside of a tunnel, or takes them for payload.", run: (*Console).csumParseTunnel},
		{section: configSection, pattern: "csum mac-swap (on|off) (port_id)", help: "Choose whether mode csum writes the MAC addresses of packets sent through the port.", run: (*Console).csumMACSwap},
	}
}

// csumPort gives the stopped port at word i, or nil after a complaint.
func (c *Console) csumPort(a args, i int) *portState {
	if c.lookup(a.num(i)) == nil {
		c.errorf("Invalid port %d\ninvalid port %d\n", a.num(i), a.num(i))
		return nil
	}
	return c.stoppedPort(a, i)
}

func (c *Console) csumSet(a args) {
	p := c.csumPort(a, 4)
	if p == nil {
		return
	}
	for _, l := range layers {
		if l.word != a[2] {
			continue
		}
		hw := a[3] == "hw"
		if hw && p.Info().TxCapa&l.offload == 0 {
			c.errorf("%s checksum offload is not supported by port %d\n", l.refused, p.id)
		} else {
			p.requestTx(l.offload, hw)
		}
	}
	c.printCsum(p)
}

func (c *Console) csumShow(a args) {
	if p := c.csumPort(a, 2); p != nil {
		c.printCsum(p)
	}
}

func (c *Console) csumParseTunnel(a args) {
	if p := c.csumPort(a, 3); p != nil {
		p.tunnels = a.on(2)
		c.printCsum(p)
	}
}

func (c *Console) csumMACSwap(a args) {
	if p := c.csumPort(a, 3); p != nil {
		p.keepMACs = !a.on(2)
	}
}

// printCsum shows who fills in which checksum from the next start on.
func (c *Console) printCsum(p *portState) {
	c.printf("Parse tunnel is %s\n", onOff(p.tunnels))
	for _, l := range layers {
		who := "sw"
		if p.txOffloads&l.offload != 0 {
			who = "hw"
		}
		c.printf("%s checksum offload is %s\n", l.name, who)
	}
}
