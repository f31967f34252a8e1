package tapport

import (
	"bytes"
	"fmt"
	"net"
	"slices"

	"vionet/port"
)

// A tap has no filter: the port receives every frame that the kernel sends out
// of the interface, whatever its destination.
var (
	_ port.MACFilter      = (*tapPort)(nil)
	_ port.AllMulticaster = (*tapPort)(nil)
)

// SetPromiscuous changes nothing: the port receives every frame anyhow.
func (p *tapPort) SetPromiscuous(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promisc = on
	return nil
}

// SetAllMulticast changes nothing: the port receives every frame anyhow.
func (p *tapPort) SetAllMulticast(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allMulti = on
	return nil
}

// AllMulticast reports what SetAllMulticast said.
func (p *tapPort) AllMulticast() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.allMulti
}

// MACs gives the interface's address.
func (p *tapPort) MACs() []net.HardwareAddr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []net.HardwareAddr{slices.Clone(p.mac)}
}

// AddMAC fails for every address but the one that is there: an interface has
// one.
func (p *tapPort) AddMAC(mac net.HardwareAddr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !bytes.Equal(mac, p.mac) {
		return p.failed(fmt.Errorf("a second MAC address: %w: a tap has one and receives the frames for all", port.ErrNotSupported))
	}
	return nil
}

// RemoveMAC does nothing: there is only the primary address.
func (p *tapPort) RemoveMAC(net.HardwareAddr) error { return nil }

// SetMAC changes the address of the kernel's interface.
func (p *tapPort) SetMAC(mac net.HardwareAddr) error {
	if err := checkMAC(mac); err != nil {
		return p.failed(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return port.ErrClosed
	}
	if err := p.link.setMAC(mac); err != nil {
		return p.failed(err)
	}
	p.mac = slices.Clone(mac)
	return nil
}
