package driver_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

type ipVersion int

const (
	ipv4 ipVersion = 4
	ipv6 ipVersion = 6
)

// tcpFrame makes an Ethernet frame with a TCP segment of n payload bytes, its
// TCP checksum left 0.
func tcpFrame(v ipVersion, n int) []byte { return l4Frame(v, 6, 20, n) }

func l4Frame(v ipVersion, proto byte, l4 int, n int) []byte {
	var f []byte
	f = append(f, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1)
	if v == ipv4 {
		f = append(f, 8, 0, 0x45, 0)
		f = binary.BigEndian.AppendUint16(f, uint16(20+l4+n))
		f = append(f, 0, 1, 0x40, 0, 64, proto, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2)
	} else {
		f = append(f, 0x86, 0xdd, 0x60, 0, 0, 0)
		f = binary.BigEndian.AppendUint16(f, uint16(l4+n))
		f = append(f, proto, 64)
		f = append(f, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
		f = append(f, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2)
	}
	f = append(f, frame(l4+n, 0x11)...)
	head := f[len(f)-l4-n:]
	if proto == 6 {
		head[12] = 5 << 4
		head[16], head[17] = 0, 0
	} else {
		binary.BigEndian.PutUint16(head[4:], uint16(l4+n))
		head[6], head[7] = 0, 0
	}
	return f
}

// internetSum is the internet checksum (RFC 1071) of all of b, byte by byte.
func internetSum(b []byte) uint16 {
	var sum uint32
	for i, v := range b {
		if i%2 == 0 {
			sum += uint32(v) << 8
		} else {
			sum += uint32(v)
		}
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// fullSum is the L4 checksum of a frame, from the RFCs' definition: over the
// pseudo-header and the whole segment with its checksum field 0.
func fullSum(v ipVersion, f []byte, l2 int, proto byte, field int) uint16 {
	l3, addrs := 20, f[l2+12:l2+20]
	if v == ipv6 {
		l3, addrs = 40, f[l2+8:l2+40]
	}
	segment := bytes.Clone(f[l2+l3:])
	segment[field], segment[field+1] = 0, 0
	pseudo := bytes.Clone(addrs)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(segment)))
	pseudo = append(pseudo, 0, 0, 0, proto)
	return internetSum(append(pseudo, segment...))
}

// completeChecksum does what a device does with NEEDS_CSUM: the sum from
// csum_start to the end, put at csum_offset from there.
func completeChecksum(f []byte, h virtio.NetHeader) uint16 {
	f = bytes.Clone(f)
	sum := internetSum(f[h.CSumStart:])
	return sum
}

func TestTxChecksumIsWhatTheDeviceCompletes(t *testing.T) {
	kinds := []struct {
		name    string
		proto   byte
		l4      int
		field   int
		flag    mbuf.Flags
		offload port.TxOffloads
	}{
		{"tcp", 6, 20, 16, mbuf.TxTCPChecksum, port.TxTCPCksum},
		{"udp", 17, 8, 6, mbuf.TxUDPChecksum, port.TxUDPCksum},
	}
	for _, k := range kinds {
		for _, v := range []ipVersion{ipv4, ipv6} {
			for _, payload := range []int{0, 1, 7, 64, 1400} {
				for _, vlan := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/ipv%d/%d bytes/vlan=%v", k.name, v, payload, vlan), func(t *testing.T) {
						r := startRig(t, rigConfig{port: port.Config{TxOffloads: k.offload | port.TxVLANInsert}})
						f := l4Frame(v, k.proto, k.l4, payload)
						b := r.packet(f)
						b.Flags, b.L2Len, b.L3Len = k.flag|mbuf.TxIPv4, 14, 20
						if v == ipv6 {
							b.Flags, b.L3Len = k.flag|mbuf.TxIPv6, 40
						}
						l2 := 14
						if vlan {
							b.Flags |= mbuf.TxVLAN
							b.VLAN = 0x2064
							l2 = 18
						}
						sent := r.send(b)
						l3 := int(b.L3Len)
						want := virtio.NetHeader{Flags: virtio.HdrNeedsCSum, CSumStart: uint16(l2 + l3), CSumOffset: uint16(k.field)}
						if sent.Header != want {
							t.Errorf("header %+v, want %+v", sent.Header, want)
						}
						if got, want := completeChecksum(sent.Data, sent.Header), fullSum(v, sent.Data, l2, k.proto, k.field); got != want {
							t.Errorf("the device makes the checksum %#04x, right is %#04x", got, want)
						}
						if vlan {
							if tag := sent.Data[12:16]; !bytes.Equal(tag, []byte{0x81, 0, 0x20, 0x64}) {
								t.Errorf("tag % x", tag)
							}
							if rest := append(bytes.Clone(sent.Data[:12]), sent.Data[16:]...); !bytes.Equal(rest[:34], f[:34]) {
								t.Error("the tag changed the frame around it")
							}
						}
						r.complete(sent)
					})
				}
			}
		}
	}
}

func TestTxTSOHeader(t *testing.T) {
	for _, v := range []ipVersion{ipv4, ipv6} {
		t.Run(fmt.Sprintf("ipv%d", v), func(t *testing.T) {
			r := startRig(t, rigConfig{port: port.Config{TxOffloads: port.TxTCPTSO | port.TxMultiSegs}})
			f := tcpFrame(v, 3000)
			b := r.packet(f[:1500], f[1500:])
			b.L2Len, b.L3Len, b.L4Len, b.SegSize = 14, 20, 20, 1000
			b.Flags = mbuf.TxTSO | mbuf.TxIPv4
			kind, l3 := virtio.GSOTCPv4, 20
			if v == ipv6 {
				b.Flags, b.L3Len = mbuf.TxTSO|mbuf.TxIPv6, 40
				kind, l3 = virtio.GSOTCPv6, 40
			}
			sent := r.send(b)
			want := virtio.NetHeader{
				Flags: virtio.HdrNeedsCSum, GSOType: kind, GSOSize: 1000, HdrLen: uint16(14 + l3 + 20),
				CSumStart: uint16(14 + l3), CSumOffset: 16,
			}
			if sent.Header != want {
				t.Errorf("header %+v\n want %+v", sent.Header, want)
			}
			if got, want := completeChecksum(sent.Data, sent.Header), fullSum(v, sent.Data, 14, 6, 16); got != want {
				t.Errorf("the whole packet's checksum comes out as %#04x, right is %#04x", got, want)
			}
			if v == ipv4 {
				if sum := internetSum(sent.Data[14:34]); sum != 0 {
					t.Errorf("the IPv4 header's sum is %#04x, 0 when right", sum)
				}
			}
			r.complete(sent)
		})
	}
}

func TestIPv4HeaderIsUntouchedUnlessSegmented(t *testing.T) {
	r := startRig(t, rigConfig{port: port.Config{TxOffloads: port.TxTCPCksum}})
	f := tcpFrame(ipv4, 100)
	f[24], f[25] = 0xde, 0xad
	b := r.packet(f)
	b.Flags, b.L2Len, b.L3Len = mbuf.TxTCPChecksum|mbuf.TxIPv4, 14, 20
	sent := r.send(b)
	if !bytes.Equal(sent.Data[14:34], f[14:34]) {
		t.Error("the IP header changed although only the L4 checksum was asked for")
	}
	r.complete(sent)
}
