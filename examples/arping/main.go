// Command arping asks who has an IPv4 address, and prints who answers and how long
// that took. It sends and receives through a packet.Conn, and sleeps in between.
//
//	arping -a 0000:00:04.0 -source 192.168.0.7 192.168.0.1
//
// Like any station it answers those who ask for its own address. On an embedded
// device, which returns every frame, it asks itself: that is what it asks for when
// no address is given.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"vionet/examples/internal/device"
	"vionet/packet"
)

// options are the flags.
type options struct {
	devices        []string
	source, target netip.Addr
	count          int
	wait, interval time.Duration
}

func main() {
	o := options{source: netip.MustParseAddr("192.0.2.1")}
	names := device.Flag()
	flag.TextVar(&o.source, "source", o.source, "our own IPv4 `address`")
	flag.IntVar(&o.count, "count", 3, "how often to ask")
	flag.DurationVar(&o.wait, "wait", time.Second, "how long to wait for each answer")
	flag.DurationVar(&o.interval, "interval", time.Second, "how long to wait before the next question")
	flag.Parse()
	o.devices = *names
	if err := o.target.UnmarshalText([]byte(flag.Arg(0))); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	answers, err := arping(ctx, o, os.Stdout)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d questions, %d answers\n", o.count, answers)
}

// arping asks until ctx is done, count times at most, and counts the answers.
func arping(ctx context.Context, o options, out io.Writer) (answers int, err error) {
	if !o.target.IsValid() {
		o.target = o.source
	}
	if !o.source.Is4() || !o.target.Is4() {
		return 0, fmt.Errorf("%v and %v: ARP knows IPv4 addresses alone", o.source, o.target)
	}
	devices, err := device.Open(device.Config{Names: o.devices})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, devices.Close()) }()
	conn, err := packet.Listen(devices.Ports[0], packet.Config{Pool: devices.Pool})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // which ends a read
	us := station{conn.LocalAddr().(*packet.Addr).HardwareAddr, o.source}
	for next := time.Now(); o.count > 0 && ctx.Err() == nil; o.count-- {
		pause, stop := context.WithDeadline(ctx, next)
		<-pause.Done()
		stop()
		began := time.Now()
		next = began.Add(o.interval)
		conn.SetReadDeadline(began.Add(o.wait))
		who, err := us.resolve(conn, o.target)
		switch {
		case err == nil:
			fmt.Fprintf(out, "%v is at %v (%v)\n", o.target, who, time.Since(began).Round(time.Microsecond))
			answers++
		case errors.Is(err, os.ErrDeadlineExceeded):
			fmt.Fprintf(out, "no answer from %v\n", o.target)
		case ctx.Err() == nil:
			return answers, err
		}
	}
	return answers, nil
}

// station is one that asks, and answers for itself.
type station struct {
	mac net.HardwareAddr
	ip  netip.Addr
}

// resolve asks who has an address and waits for the answer, as long as the deadline
// of conn allows. Others who ask meanwhile are answered.
func (s station) resolve(conn net.PacketConn, ip netip.Addr) (net.HardwareAddr, error) {
	if err := s.send(conn, layers.ARPRequest, layers.EthernetBroadcast, ip); err != nil {
		return nil, err
	}
	frame := make([]byte, 1518)
	for {
		n, _, err := conn.ReadFrom(frame)
		if err != nil {
			return nil, err
		}
		arp, ok := gopacket.NewPacket(frame[:n], layers.LayerTypeEthernet, gopacket.Default).Layer(layers.LayerTypeARP).(*layers.ARP)
		if !ok {
			continue
		}
		asker, _ := netip.AddrFromSlice(arp.SourceProtAddress)
		asked, _ := netip.AddrFromSlice(arp.DstProtAddress)
		switch {
		case arp.Operation == layers.ARPReply && asker == ip:
			return net.HardwareAddr(arp.SourceHwAddress), nil
		case arp.Operation == layers.ARPRequest && asked == s.ip:
			if err := s.send(conn, layers.ARPReply, arp.SourceHwAddress, asker); err != nil {
				return nil, err
			}
		}
	}
}

// send sends a question to all, or an answer to one.
func (s station) send(conn net.PacketConn, operation uint16, to net.HardwareAddr, ip netip.Addr) error {
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: s.mac, DstMAC: to, EthernetType: layers.EthernetTypeARP},
		&layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4,
			Operation: operation, SourceHwAddress: s.mac, SourceProtAddress: s.ip.AsSlice(), DstHwAddress: to, DstProtAddress: ip.AsSlice(),
		})
	if err == nil {
		_, err = conn.WriteTo(b.Bytes(), nil)
	}
	return err
}
