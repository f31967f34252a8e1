package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	pkt "github.com/gopacket/gopacket/layers"

	"vionet/mbuf"
	"vionet/port"
)

// partial is a receive queue that marks what it delivers as packets without L4
// checksum.
type partial struct {
	script
	start, offset uint16
	flags         mbuf.Flags
}

func (q *partial) Burst(bufs []*mbuf.Buf) int {
	n := q.script.Burst(bufs)
	for _, b := range bufs[:n] {
		b.Flags = mbuf.RxL4None | q.flags
		b.CSumStart, b.CSumOffset = q.start, q.offset
	}
	return n
}

// unfinished gives the frame as a sender leaves it that expects its checksum to
// be filled in: the field holds the folded sum of the pseudo-header.
func unfinished(frame []byte, start, offset int, pseudo []byte) []byte {
	frame = bytes.Clone(frame)
	binary.BigEndian.PutUint16(frame[start+offset:], ^slowSum(pseudo))
	return frame
}

// pseudo is the pseudo-header of an L4 packet of n bytes.
func pseudo(src, dst []byte, proto byte, n int) []byte {
	return append(append(bytes.Clone(src), dst...), 0, proto, byte(n>>8), byte(n))
}

// NEEDS_CSUM is for the host alone: no mode lets such a packet out as it is.
func TestPartialChecksumsAreFinished(t *testing.T) {
	v4, v6 := ipv4(pkt.IPProtocolTCP), ipv6(pkt.IPProtocolUDP)
	o4, in4 := ipv4(pkt.IPProtocolUDP), ipv4(pkt.IPProtocolTCP)
	tunnel := packet(t, ether(pkt.EthernetTypeIPv4), o4, udp(o4, 4789), raw(8, 0, 0, 0, 0, 0, 42, 0), ether(pkt.EthernetTypeIPv4), in4, tcp(in4), text(51))
	tunnel[40], tunnel[41] = 0, 0
	for _, tt := range []struct {
		name          string
		whole         []byte
		start, offset int
		pseudo        []byte
		request       mbuf.Flags // where the Tx port takes one
	}{
		{"TCP", packet(t, ether(pkt.EthernetTypeIPv4), v4, tcp(v4), text(101)), 34, 16, pseudo(ip4A, ip4B, 6, 121), mbuf.TxIPv4 | mbuf.TxTCPChecksum},
		{"UDP over IPv6", packet(t, ether(pkt.EthernetTypeIPv6), v6, udp(v6, 7), text(64)), 54, 6, pseudo(ip6A, ip6B, 17, 72), mbuf.TxIPv6 | mbuf.TxUDPChecksum},
		{"TCP in VXLAN", tunnel, 84, 16, pseudo(ip4A, ip4B, 6, 71), 0},
	} {
		frame := unfinished(tt.whole, tt.start, tt.offset, tt.pseudo)
		for _, mode := range settlingModes {
			for _, offloads := range []port.TxOffloads{0, port.TxTCPCksum | port.TxUDPCksum} {
				for _, segSize := range []int{0, 51, 100} {
					for _, told := range []bool{true, false} {
						if !told && (tt.request == 0 || segSize == 51) {
							continue // without the whole L4 header nobody knows the place
						}
						cfg := StreamConfig{TxOffloads: offloads, KeepMACs: true}
						r := newRig(t, cfg, frame)
						q := &partial{script: script{frames: [][]byte{frame}, segSize: segSize}}
						if told {
							q.start, q.offset = uint16(tt.start), uint16(tt.offset)
						}
						r.Rx = q
						r.UseCache(r.cache)
						mode.Forward(r.Stream)
						got := r.tx.sent[0]
						asked := tt.request != 0 && offloads != 0 && (segSize == 0 || segSize >= tt.start+20)
						switch {
						case asked && got.Flags != tt.request:
							t.Errorf("%s, %s: request %#x, want %#x", tt.name, mode.Name, got.Flags, tt.request)
						case asked && int(got.L2+got.L3) != tt.start:
							t.Errorf("%s, %s: L4 at %d, want %d", tt.name, mode.Name, got.L2+got.L3, tt.start)
						case !asked && got.Flags != 0:
							t.Errorf("%s, %s: request %#x, want none", tt.name, mode.Name, got.Flags)
						case !asked && !bytes.Equal(got.Bytes[tt.start+tt.offset:], tt.whole[tt.start+tt.offset:]):
							t.Errorf("%s, %s, segments of %d, told %t:\n%x, want\n%x", tt.name, mode.Name, segSize, told, got.Bytes, tt.whole)
						}
						r.accounted(t)
					}
				}
			}
		}
	}
}

func TestVLANTagBesideAChecksum(t *testing.T) {
	v4 := ipv4(pkt.IPProtocolTCP)
	frame := packet(t, ether(pkt.EthernetTypeIPv4), v4, tcp(v4), text(101))
	r := newRig(t, StreamConfig{TxOffloads: port.TxTCPCksum | port.TxVLANInsert, VLAN: 9})
	r.Rx = &partial{script: script{frames: [][]byte{frame}}, start: 34, offset: 16}
	r.UseCache(r.cache)
	MAC.Forward(r.Stream)
	if got := r.tx.sent[0]; got.Flags != mbuf.TxVLAN|mbuf.TxTCPChecksum|mbuf.TxIPv4 || got.VLAN != 9 {
		t.Errorf("%+v", got)
	}
}

// The place that a device names is where the checksum goes, wherever it is.
func FuzzFinish(f *testing.F) {
	f.Add([]byte("0123456789abcdefghij"), uint16(3), uint16(5), uint16(4))
	f.Add([]byte("0123456789abcdefghij"), uint16(0), uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, frame []byte, start, offset, segSize uint16) {
		if len(frame) == 0 || len(frame) > 1500 {
			return
		}
		r := newRig(t, StreamConfig{})
		r.Rx = &partial{script: script{frames: [][]byte{frame}, segSize: max(int(segSize), 16)}, start: start, offset: offset}
		r.UseCache(r.cache)
		IO.Forward(r.Stream)
		if got := r.tx.sent[0]; len(got.Bytes) != len(frame) || got.Flags != 0 {
			t.Errorf("%+v of %d bytes", got, len(frame))
		}
		r.accounted(t)
	})
}
