package device

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"

	"vionet/mbuf"
	"vionet/offload"
)

// Headers is the length in bytes of the headers of a Datagram: Ethernet, IPv4 and
// UDP. MinSize is the length of the shortest one.
const (
	Headers = 14 + 20 + 8
	MinSize = Headers + 8
)

// Datagram is a frame of size bytes from 198.18.0.1 to 198.18.0.2, addresses for
// measurements (RFC 2544), to every station and the port that discards. A flow is
// told from others by its source port. It has no UDP checksum.
func Datagram(size int, source net.HardwareAddr, flow uint16) []byte {
	f := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, source, []byte{8, 0},
		[]byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2},
		[]byte{0, 0, 0, 9, 0, 0, 0, 0}, make([]byte, size-Headers))
	ip, udp := f[14:], f[34:]
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[10:], offload.Checksum(ip[:20]))
	binary.BigEndian.PutUint16(udp[0:], flow)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	return f
}

// Seed sends a datagram of each of so many flows on every transmit queue: to an
// embedded device, which would have nothing to return otherwise.
func (s *Set) Seed(flows int) error {
	for _, dev := range s.Ports {
		info := dev.Info()
		for q := range info.TxQueues {
			for flow := range flows {
				b := s.Pool.Get()
				if b == nil {
					return errors.New("the pool is too small for so many flows")
				}
				copy(b.Renew(64), Datagram(64, info.MAC, uint16(1024+flow)))
				if dev.TxQueue(q).Burst([]*mbuf.Buf{b}) == 0 {
					b.Free()
					return errors.New("the transmit queue is too short for so many flows")
				}
			}
		}
	}
	return nil
}
