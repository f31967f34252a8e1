package packet

import "net"

// Addr is the address of a station on the link: that of the sender of a frame
// that was read, or of the Conn itself. Whoever gets one must not change it.
type Addr struct {
	HardwareAddr net.HardwareAddr
}

var _ net.Addr = (*Addr)(nil)

// newAddr makes an Addr in one piece of memory.
func newAddr(mac [6]byte) *Addr {
	a := &struct {
		Addr
		mac [6]byte
	}{mac: mac}
	a.HardwareAddr = a.mac[:]
	return &a.Addr
}

// network is what Addr and the errors of a Conn call their network.
const network = "ethernet"

// Network is "ethernet".
func (a *Addr) Network() string { return network }

// String is the address as xx:xx:xx:xx:xx:xx.
func (a *Addr) String() string { return a.HardwareAddr.String() }
