// Package frames makes the frames that benchmarks send.
package frames

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// minFrames is how many frames a file of flows has at least: with few flows, too,
// no burst looks like the one before.
const minFrames = 1024

// WriteFlows writes a capture file with UDP frames of that many flows and size
// bytes each: every flow as often as every other, in an order that is random and
// the same each time.
func WriteFlows(path string, flows, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(uint32(size), layers.LinkTypeEthernet); err != nil {
		return err
	}
	for _, flow := range Shuffled(flows) {
		frame, err := UDP(flow, size)
		if err == nil {
			err = w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}, frame)
		}
		if err != nil {
			return err
		}
	}
	return f.Close()
}

// Shuffled are the numbers below flows, each as often as every other.
func Shuffled(flows int) (order []int) {
	for len(order) < minFrames {
		for flow := range flows {
			order = append(order, flow)
		}
	}
	r := rand.New(rand.NewPCG(1, uint64(flows)))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// Headers is the length in bytes of the headers of UDP's frames.
const Headers = 14 + 20 + 8

// The networks that RFC 2544 keeps for benchmarks, and a station that nobody is.
var (
	Source = netip.MustParsePrefix("198.18.0.1/15")
	first  = netip.MustParseAddr("198.19.0.0")
	Nobody = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// Port is the discard port, where UDP's frames go.
const Port = 9

// Destination is the address that belongs to a flow alone.
func Destination(flow int) netip.Addr {
	a := first.As4()
	binary.BigEndian.PutUint16(a[2:], uint16(flow))
	return netip.AddrFrom4(a)
}

// UDP is a frame of size bytes from Source to the destination of a flow, with
// zeros in it.
func UDP(flow, size int) ([]byte, error) {
	if size < Headers {
		return nil, fmt.Errorf("a frame of %d bytes is shorter than its headers, which have %d", size, Headers)
	}
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: Source.Addr().AsSlice(), DstIP: Destination(flow).AsSlice()}
	udp := &layers.UDP{SrcPort: 1000, DstPort: Port}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: Nobody, EthernetType: layers.EthernetTypeIPv4},
		ip, udp, gopacket.Payload(make([]byte, size-Headers)))
	return b.Bytes(), err
}
