package netstack

import (
	"net"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"vionet/port"
)

// This file says what kind of a link the endpoint is.

// MTU is the size in bytes of the largest IP packet.
func (e *Endpoint) MTU() uint32 { return e.mtu.Load() }

// SetMTU lowers the MTU, or raises it again: to what the port was configured for
// at most, since it has no way to fail.
func (e *Endpoint) SetMTU(mtu uint32) { e.mtu.Store(min(mtu, e.maxMTU)) }

// MaxHeaderLength is the size of an Ethernet header in bytes.
func (e *Endpoint) MaxHeaderLength() uint16 { return header.EthernetMinimumSize }

// LinkAddress is the station's MAC address, at first the port's.
func (e *Endpoint) LinkAddress() tcpip.LinkAddress { return *e.station.Load() }

// SetLinkAddress changes the station's MAC address, and has the port receive it
// too: among its own or, where the device cannot do that, with all others.
func (e *Endpoint) SetLinkAddress(addr tcpip.LinkAddress) {
	e.setStation(net.HardwareAddr(addr))
	if f, ok := e.port.(port.MACFilter); ok && f.AddMAC(net.HardwareAddr(addr)) == nil {
		return
	}
	// A device that has no such mode receives all frames anyway.
	_ = e.port.SetPromiscuous(true)
}

// Capabilities are those of Ethernet. Whether checksums of received packets count
// as verified is a matter of each delivery: see trust.
func (e *Endpoint) Capabilities() stack.LinkEndpointCapabilities {
	caps := stack.CapabilityResolutionRequired
	if e.trust.vouches() {
		caps |= stack.CapabilityRXChecksumOffload
	}
	return caps
}

// ARPHardwareType is Ethernet's.
func (e *Endpoint) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }

// AddHeader puts an Ethernet header in front of pkt.
func (e *Endpoint) AddHeader(pkt *stack.PacketBuffer) {
	header.Ethernet(pkt.LinkHeader().Push(header.EthernetMinimumSize)).Encode(&header.EthernetFields{
		SrcAddr: pkt.EgressRoute.LocalLinkAddress,
		DstAddr: pkt.EgressRoute.RemoteLinkAddress,
		Type:    pkt.NetworkProtocolNumber,
	})
}

// ParseHeader takes the Ethernet header off pkt, and reports whether it had one.
func (e *Endpoint) ParseHeader(pkt *stack.PacketBuffer) bool {
	_, ok := pkt.LinkHeader().Consume(header.EthernetMinimumSize)
	return ok
}

// GSOMaxSize is the size in bytes of the largest TCP packet that the stack may
// hand over to be cut: one that can be cut whatever the size of a segment is, and
// that takes no more than half of a transmit ring.
func (e *Endpoint) GSOMaxSize() uint32 { return e.gsoMax.Load() }

// SupportedGSO says that the stack need not cut TCP packets, nor fill in their
// checksums.
func (e *Endpoint) SupportedGSO() stack.SupportedGSO { return stack.HostGSOSupported }
