package netstack

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"vionet/port"
)

// Host is a station on a network: a stack with one interface, for programs that
// want sockets and nothing special. Its methods may be called from any goroutine.
type Host struct {
	stack *stack.Stack
	link  *Endpoint
	close func() error
}

// HostConfig says who a Host is.
type HostConfig struct {
	Link Config // of the endpoint
	// Addresses are the host's own, IPv4 or IPv6, with the lengths of their
	// networks' prefixes.
	Addresses []netip.Prefix
	// Gateways lead to all other networks, one for each family at most.
	Gateways []netip.Addr
}

// nicID is the number of a Host's interface.
const nicID tcpip.NICID = 1

// NewHost makes a host of a stopped port, which is the host's from then on; on an
// error it is closed, unless that is since another adapter has it: then the error
// wraps port.ErrState. Close ends it.
func NewHost(p port.Port, cfg HostConfig) (*Host, error) {
	free, err := claim(p)
	if err != nil {
		return nil, err
	}
	link, err := newEndpoint(p, free, cfg.Link)
	if err != nil {
		p.Close()
		free()
		return nil, err
	}
	h := &Host{link: link, stack: newStack()}
	h.close = sync.OnceValue(func() error {
		h.stack.Destroy()
		link.Close()
		return link.Err()
	})
	if err := h.configure(cfg); err != nil {
		h.Close()
		return nil, link.failed(err)
	}
	return h, nil
}

// newStack makes the stack of a host. Selective acknowledgements are off at first, for
// no reason that is one here, and losses are found by RACK, which after an outage of the
// port sends what was lost in ones and twos, at one of its timeouts each: 8 MiB took a
// minute. Without it they are found as RFC 6675 says, in less than a second.
func newStack() *stack.Stack {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{arp.NewProtocol, ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
	})
	sack := tcpip.TCPSACKEnabled(true)
	recovery := tcpip.TCPRecovery(0)
	if err := cmp.Or(s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack), s.SetTransportProtocolOption(tcp.ProtocolNumber, &recovery)); err != nil {
		panic(fmt.Sprintf("netstack: recovery of losses: %v", err)) // TCP has these options
	}
	return s
}

func (h *Host) configure(cfg HostConfig) error {
	if err := h.link.AddTo(h.stack, nicID, stack.NICOptions{}); err != nil {
		return err
	}
	for _, prefix := range cfg.Addresses {
		if !prefix.IsValid() {
			return fmt.Errorf("an address that is none: %w: give it as 192.0.2.1/24", port.ErrInvalid)
		}
		full, protocol := fullAddress(netip.AddrPortFrom(prefix.Addr(), 0))
		own := tcpip.AddressWithPrefix{Address: full.Addr, PrefixLen: prefix.Bits()}
		if err := h.stack.AddProtocolAddress(nicID, tcpip.ProtocolAddress{Protocol: protocol, AddressWithPrefix: own}, stack.AddressProperties{}); err != nil {
			return fmt.Errorf("address %v: %w: %v", prefix, port.ErrInvalid, err)
		}
		h.stack.AddRoute(tcpip.Route{Destination: own.Subnet(), NIC: nicID})
	}
	for _, gateway := range cfg.Gateways {
		if !gateway.IsValid() {
			return fmt.Errorf("a gateway that is none: %w: give it as 192.0.2.1", port.ErrInvalid)
		}
		full, _ := fullAddress(netip.AddrPortFrom(gateway, 0))
		everywhere := header.IPv4EmptySubnet
		if gateway.Is6() {
			everywhere = header.IPv6EmptySubnet
		}
		h.stack.AddRoute(tcpip.Route{Destination: everywhere, Gateway: full.Addr, NIC: nicID})
	}
	return nil
}

// fullAddress is an address as the stack writes it, and its protocol.
func fullAddress(a netip.AddrPort) (tcpip.FullAddress, tcpip.NetworkProtocolNumber) {
	protocol := tcpip.NetworkProtocolNumber(header.IPv4ProtocolNumber)
	if a.Addr().Is6() {
		protocol = header.IPv6ProtocolNumber
	}
	return tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}, protocol
}

// Stack is the host's stack, for what has no method here: UDP, ping, statistics.
// It ends with the host.
func (h *Host) Stack() *stack.Stack { return h.stack }

// Endpoint is the host's link.
func (h *Host) Endpoint() *Endpoint { return h.link }

// Listen listens for TCP connections to a port of one of the host's addresses, of
// all of IPv4 where the address is 0.0.0.0, or of all where it is ::.
func (h *Host) Listen(address netip.AddrPort) (net.Listener, error) {
	full, protocol := fullAddress(address)
	if address.Addr().IsUnspecified() {
		full.Addr = tcpip.Address{}
	}
	l, err := gonet.ListenTCP(h.stack, full, protocol)
	if err != nil {
		return nil, h.link.failed(fmt.Errorf("listen on %v: %w", address, err))
	}
	return l, nil
}

// DialContext connects over TCP to an address such as 192.0.2.1:80. It fits
// http.Transport. There are no names: the host has no resolver.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, h.link.failed(fmt.Errorf("dial %s %s: %w: TCP to an address and a port is what there is", network, strconv.Quote(address), port.ErrInvalid))
	}
	full, protocol := fullAddress(to)
	full.NIC = 0 // the routes tell
	conn, err := gonet.DialContextTCP(ctx, h.stack, full, protocol)
	if err != nil {
		return nil, h.link.failed(fmt.Errorf("dial %s: %w", address, err))
	}
	return conn, nil
}

// Close ends all connections, the stack and the port. A second call does nothing.
func (h *Host) Close() error { return h.close() }
