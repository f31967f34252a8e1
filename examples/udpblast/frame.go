package main

import (
	"encoding/binary"
	"net"
)

// Sizes in bytes. headers are those of Ethernet, IPv4 and UDP; behind them
// stands the frame's number.
const (
	headers  = 14 + 20 + 8
	minFrame = headers + 8
	maxFrame = 1514
)

// fillFrame writes a datagram from 198.18.0.1 to 198.18.0.2, addresses for
// measurements (RFC 2544), to every station.
func fillFrame(frame []byte, source net.HardwareAddr) {
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	copy(frame[6:], source)
	frame[12], frame[13] = 0x08, 0x00
	ip := frame[14:]
	copy(ip, []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2})
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:20]))
	udp := ip[20:]
	binary.BigEndian.PutUint16(udp, 9) // discard
	binary.BigEndian.PutUint16(udp[2:], 9)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	// A checksum of 0 says that there is none.
}

// checksum is the Internet checksum of a header.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
