package engine

import "encoding/binary"

// tunnel is a way to carry one packet in another.
type tunnel int

// Tunnels whose inside mode csum looks at.
const (
	noTunnel tunnel = iota
	tunnelVXLAN
	tunnelVXLANGPE
	tunnelGENEVE
	tunnelGTP
	tunnelGRE
	tunnelIPIP
)

// UDP ports of tunnels.
const (
	portGTPC  = 2123
	portGTPU  = 2152
	portVXLAN = 4789

	// DefaultVXLANGPEPort and DefaultGENEVEPort are where these tunnels are
	// looked for if nothing else was said.
	DefaultVXLANGPEPort = 4790
	DefaultGENEVEPort   = 6081
)

// layers are the headers of a packet: outer those of the tunnel that it goes
// through, if it does, and inner those of the packet itself.
type layers struct {
	tunnel tunnel
	outer  headers
	inner  headers
}

// TunnelPorts are the UDP ports of the tunnels that have no fixed one; 0 stands
// for the default.
type TunnelPorts struct{ VXLANGPE, GENEVE uint16 }

func (p TunnelPorts) orDefault() TunnelPorts {
	if p.VXLANGPE == 0 {
		p.VXLANGPE = DefaultVXLANGPEPort
	}
	if p.GENEVE == 0 {
		p.GENEVE = DefaultGENEVEPort
	}
	return p
}

// enter looks for a tunnel in the packet of l.inner and parses what it carries.
// What is no tunnel, or one whose inside is broken or no IP packet, stays a
// packet without tunnel.
func (l *layers) enter(frame []byte, ports TunnelPorts) {
	inner := headers{at: l.inner.payload(), proto: protoNone}
	end := l.inner.payload() + l.inner.l4Size
	if kind := inner.enter(frame[:min(end, len(frame))], end, &l.inner, ports); kind != noTunnel {
		l.tunnel, l.outer, l.inner = kind, l.inner, inner
	}
}

// enter fills h with what the tunnel of outer carries. The packet of outer ends
// at end.
func (h *headers) enter(frame []byte, end int, outer *headers, ports TunnelPorts) tunnel {
	head := frame[outer.payload():]
	kind := noTunnel
	carried := 0 // the EtherType of what comes behind h.l2
	switch {
	case outer.proto == protoUDP:
		h.l2 = udpLen
		kind, carried = h.enterUDP(head, ports)
	case outer.fragment:
	case outer.next == protoGRE:
		carried = h.enterGRE(head)
		kind = tunnelGRE
	case outer.next == protoIPv4:
		kind, carried = tunnelIPIP, version(head)
	case outer.next == protoIPv6:
		kind, carried = tunnelIPIP, etherIPv6
	}
	h.head = h.l2
	ok := false
	switch carried {
	case etherTEB:
		ok = h.parseEther(frame, end)
	case etherIPv4, etherIPv6:
		ok = h.parseIP(carried, frame, end)
	}
	if !ok {
		return noTunnel
	}
	return kind
}

// enterUDP reads the tunnel header behind the UDP header at the front of udp,
// adds its length to l2, and tells what it carries.
func (h *headers) enterUDP(udp []byte, ports TunnelPorts) (kind tunnel, carried int) {
	src, dst := binary.BigEndian.Uint16(udp), binary.BigEndian.Uint16(udp[2:])
	head := udp[udpLen:]
	if len(head) < 8 {
		return noTunnel, 0
	}
	switch {
	case dst == portGTPU || dst == portGTPC || src == portGTPC:
		return tunnelGTP, h.enterGTP(head)
	case dst == ports.VXLANGPE:
		h.l2 += 8
		// The protocol field is that of the draft; 0 stands for IPv4 in
		// packets of older senders.
		switch head[3] {
		case 0, 1:
			return tunnelVXLANGPE, etherIPv4
		case 2:
			return tunnelVXLANGPE, etherIPv6
		case 3:
			return tunnelVXLANGPE, etherTEB
		}
	case dst == portVXLAN:
		h.l2 += 8
		return tunnelVXLAN, etherTEB
	case dst == ports.GENEVE:
		h.l2 += 8 + int(head[0]&0x3f)*4
		carried = int(binary.BigEndian.Uint16(head[2:]))
		if carried == 0 {
			carried = etherIPv4
		}
		return tunnelGENEVE, carried
	}
	return noTunnel, 0
}

// enterGTP reads the header of version 1 of the protocol. A control message
// carries no packet.
func (h *headers) enterGTP(head []byte) (carried int) {
	const optionalFields, userPacket = 7, 0xff
	h.l2 += 8
	if head[0]&optionalFields != 0 {
		h.l2 += 4
	}
	if at := h.l2 - udpLen; head[1] == userPacket && at < len(head) {
		return version(head[at:])
	}
	return 0
}

// enterGRE reads a GRE header with the fields of RFC 2890.
func (h *headers) enterGRE(head []byte) (carried int) {
	if len(head) < 4 {
		return 0
	}
	const checksumPresent, keyPresent, sequencePresent = 0x80, 0x20, 0x10
	h.l2 = 4
	for _, flag := range []byte{checksumPresent, keyPresent, sequencePresent} {
		if head[0]&flag != 0 {
			h.l2 += 4
		}
	}
	return int(binary.BigEndian.Uint16(head[2:]))
}

// version is the EtherType that the first byte of an IP header stands for.
func version(ip []byte) int {
	if len(ip) == 0 {
		return 0
	}
	switch ip[0] >> 4 {
	case 4:
		return etherIPv4
	case 6:
		return etherIPv6
	}
	return 0
}
