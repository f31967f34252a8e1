package netstack

import (
	"encoding/binary"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
	"vionet/vhost"
)

// rawPort is a port in the hands of the test, tied to a host's.
type rawPort struct {
	tb   testing.TB
	port port.Port
	pool *mbuf.Pool
}

func holdPort(tb testing.TB, p port.Port, cfg port.Config) *rawPort {
	tb.Helper()
	r := &rawPort{tb: tb, port: p, pool: newPool(tb, 8192)}
	tb.Cleanup(func() { must(tb, p.Close()) })
	cfg.Pool = r.pool
	must(tb, p.Configure(cfg))
	must(tb, p.Start())
	return r
}

// send sends a frame with requests.
func (r *rawPort) send(frame []byte, flags mbuf.Flags) {
	r.tb.Helper()
	b := r.pool.Get()
	copy(b.Append(len(frame)), frame)
	b.Flags, b.L2Len, b.L3Len = flags, 14, 20
	eventually(r.tb, "room for a frame", func() bool { return r.port.TxQueue(0).Burst([]*mbuf.Buf{b}) == 1 })
}

// wordSum is the ones' complement sum of b's words.
func wordSum(b []byte) uint16 {
	sum := uint32(0)
	for i, v := range b {
		sum += uint32(v) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// udpFrame is a datagram from 192.0.2.1 to port 9 of 192.0.2.2 with all checksums
// right. more and offset make it a fragment: the offset in units of 8 bytes.
func udpFrame(to tcpip.LinkAddress, text string, more bool, offset uint16) []byte {
	f := append([]byte(to), 2, 0, 0, 0, 0, 9, 8, 0)
	f = append(f, 0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2)
	if offset == 0 {
		f = append(f, 0, 9, 0, 9, 0, 0, 0, 0)
	}
	f = append(f, text...)
	ip := f[14:]
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	if more {
		offset |= 0x2000
	}
	binary.BigEndian.PutUint16(ip[6:], offset)
	binary.BigEndian.PutUint16(ip[10:], ^wordSum(ip[:20]))
	if offset == 0 {
		udp := ip[20:]
		binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
		pseudo := append([]byte{0, 17, udp[4], udp[5]}, ip[12:20]...)
		binary.BigEndian.PutUint16(udp[6:], ^wordSum(append(pseudo, udp...)))
	}
	return f
}

// What the device vouches for is received; everything else is verified by the
// stack, whether the port has checksum offloads or not.
func TestTrust(t *testing.T) {
	const ipSum, udpSum = 14 + 10, 14 + 20 + 6
	damage := func(f []byte, at int) []byte { f[at] ^= 0x40; return f }
	for name, offloads := range map[string]port.RxOffloads{
		"offloads": 0, "no offloads": ^port.RxOffloads(0), "UDP checksums alone": ^port.RxUDPCksum, "TCP checksums alone": ^port.RxTCPCksum,
	} {
		t.Run(name, func(t *testing.T) {
			nearPort, farPort := virtual(vhost.PortConfig{Packed: true}, driver.Options{})(t)
			raw := holdPort(t, nearPort, port.Config{TxOffloads: port.TxUDPCksum})
			h := newHost(t, farPort, 2, Config{WithoutRx: offloads})
			conn, err := gonet.DialUDP(h.stack, &tcpip.FullAddress{NIC: nic, Addr: h.ip[0], Port: 9}, nil, header.IPv4ProtocolNumber)
			must(t, err)
			defer conn.Close()
			to := h.link.LinkAddress()
			eventually(t, "the link", func() bool { return raw.port.Link().Up })

			const partial = mbuf.TxUDPChecksum | mbuf.TxIPv4
			whole := udpFrame(to, "0123456789abcdef", false, 0)
			raw.send(damage(udpFrame(to, "bad sum", false, 0), udpSum), 0)
			raw.send(damage(udpFrame(to, "bad header", false, 0), ipSum), 0)
			raw.send(damage(udpFrame(to, "bad header, partial", false, 0), ipSum), partial)
			raw.send(damage(udpFrame(to, "partial", false, 0), udpSum), partial) // the port puts its start there
			raw.send(udpFrame("\x02\x00\x00\x00\x00\x77", "stray", false, 0), 0)
			raw.send(udpFrame(to, "good", false, 0), 0)
			// The checksum of a datagram in fragments is that of the whole.
			for _, bad := range []bool{true, false} {
				first := udpFrame(to, "01234567", true, 0)
				copy(first[14+20:], whole[14+20:14+28])
				if bad {
					damage(first, udpSum)
				}
				raw.send(first, 0)
				raw.send(udpFrame(to, "89abcdef", false, 2), 0)
			}
			raw.send(udpFrame(to, "last", false, 0), 0)

			var got []string
			for b := make([]byte, 2048); len(got) == 0 || got[len(got)-1] != "last"; {
				n, err := conn.Read(b)
				must(t, err)
				got = append(got, string(b[:n]))
			}
			want := []string{"partial", "good", "0123456789abcdef", "last"}
			if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
				t.Errorf("received %q, want %q", got, want)
			}
			if s := h.stack.Stats(); s.UDP.ChecksumErrors.Value() != 2 || s.IP.MalformedPacketsReceived.Value() != 2 || h.link.Stats().Strays != 1 {
				t.Errorf("%d bad checksums and %d bad headers, want 2 and 2; %d strays, want 1",
					s.UDP.ChecksumErrors.Value(), s.IP.MalformedPacketsReceived.Value(), h.link.Stats().Strays)
			}
		})
	}
}
