package packetsource_test

import (
	"fmt"
	"log"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"vionet/adapters/packetsource"
	"vionet/mbuf"
	"vionet/port"
	"vionet/port/ringport"
)

// Decode what a port receives. A cable to another port stands in for a device.
func Example() {
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: 4 << 20, NoHuge: true})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: 256})
	if err != nil {
		log.Fatal(err)
	}
	here, there, err := ringport.NewPair("here", "there", 64)
	if err != nil {
		log.Fatal(err)
	}
	var handles []*packetsource.Handle
	for _, p := range []port.Port{here, there} {
		if err := p.Configure(port.Config{Pool: pool, RxInterrupts: true}); err != nil {
			log.Fatal(err)
		}
		if err := p.Start(); err != nil {
			log.Fatal(err)
		}
		defer p.Close()
		h, err := packetsource.New(p, packetsource.Config{Pool: pool})
		if err != nil {
			log.Fatal(err)
		}
		defer h.Close() // before its port
		handles = append(handles, h)
	}

	out := gopacket.NewSerializeBuffer()
	err = gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: here.Info().MAC, DstMAC: layers.EthernetBroadcast, EthernetType: layers.EthernetTypeARP},
		&layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, Operation: layers.ARPRequest,
			SourceHwAddress: here.Info().MAC, SourceProtAddress: []byte{192, 0, 2, 1},
			DstHwAddress: make([]byte, 6), DstProtAddress: []byte{192, 0, 2, 2},
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := handles[0].WritePacketData(out.Bytes()); err != nil {
		log.Fatal(err)
	}

	source := gopacket.NewPacketSource(handles[1], handles[1].LinkType())
	packet := <-source.Packets()
	arp := packet.Layer(layers.LayerTypeARP).(*layers.ARP)
	fmt.Printf("%d bytes: who has %v?\n", packet.Metadata().Length, arp.DstProtAddress)
	// Output:
	// 60 bytes: who has [192 0 2 2]?
}
