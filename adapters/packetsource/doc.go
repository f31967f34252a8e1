// Package packetsource lets gopacket read from and write to a port.
//
// A Handle is a gopacket.PacketDataSource and a gopacket.ZeroCopyPacketDataSource,
// and has WritePacketData, as a pcap handle does:
//
//	h, err := packetsource.New(p, packetsource.Config{Pool: pool})
//	...
//	defer h.Close()
//	for packet := range gopacket.NewPacketSource(h, h.LinkType()).Packets() {
//		fmt.Println(packet)
//	}
//
// Readers sleep while nothing comes. The frames are as the port's receive queues
// give them: with the offload RxVLANStrip the tag is not among their bytes, and with
// the checksum offloads a checksum may not be filled in yet.
package packetsource
