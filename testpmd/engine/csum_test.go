package engine

import (
	"encoding/binary"
	"fmt"
	"testing"

	"vionet/mbuf"
	"vionet/port"
)

// l4Case builds a frame out of parts and knows where things are.
type l4Case struct {
	tags    int  // VLAN tags
	ipv6    bool //
	ext     bool // an IPv6 destination options header
	options int  // bytes of IPv4 options
	udp     bool //
	payload int
	padding int // bytes behind the IP packet
}

func (c l4Case) String() string {
	type fields l4Case // without this very method
	return fmt.Sprintf("%+v", fields(c))
}

func (c l4Case) build() (frame []byte, l2, l3 int) {
	frame = append(frame, 10, 0, 0, 0, 0, 1, 10, 0, 0, 0, 0, 2)
	for i := range c.tags {
		frame = append(frame, 0x81, 0, 0, byte(5+i))
	}
	var l4 []byte
	proto := byte(6)
	if c.udp {
		proto = 17
		l4 = []byte{0x12, 0x34, 0, 53, 0, 0, 0xde, 0xad}
		binary.BigEndian.PutUint16(l4[4:], uint16(8+c.payload))
	} else {
		l4 = []byte{0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0xde, 0xad, 0, 0}
	}
	for i := range c.payload {
		l4 = append(l4, byte(3*i+1))
	}
	l2 = len(frame) + 2
	if c.ipv6 {
		next, ext := proto, []byte(nil)
		if c.ext {
			next, ext = 60, []byte{proto, 0, 1, 4, 0, 0, 0, 0}
		}
		frame = append(frame, 0x86, 0xdd)
		ip := make([]byte, 40)
		ip[0], ip[6], ip[7] = 0x60, next, 64
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ext)+len(l4)))
		for i := 8; i < 40; i++ {
			ip[i] = byte(i)
		}
		frame = append(append(frame, ip...), ext...)
		l3 = 40 + len(ext)
	} else {
		frame = append(frame, 8, 0)
		ip := make([]byte, 20+c.options)
		ip[0], ip[8], ip[9] = byte(0x40|len(ip)/4), 64, proto
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(l4)))
		copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
		for i := range c.options {
			ip[20+i] = 1
		}
		ip[10], ip[11] = 0xbe, 0xef
		frame = append(frame, ip...)
		l3 = len(ip)
	}
	frame = append(frame, l4...)
	return append(frame, make([]byte, c.padding)...), l2, l3
}

// verify sums the L4 part of an IP packet with its pseudo-header word by word:
// the result of a right checksum is 0.
func (c l4Case) verify(frame []byte, l2, l3 int) uint16 {
	ip := frame[l2:]
	l4 := ip[l3 : len(ip)-c.padding]
	proto := byte(6)
	if c.udp {
		proto = 17
	}
	var pseudo []byte
	if c.ipv6 {
		pseudo = append(pseudo, ip[8:40]...)
	} else {
		pseudo = append(pseudo, ip[12:20]...)
	}
	pseudo = append(pseudo, 0, proto, byte(len(l4)>>8), byte(len(l4)))
	return slowSum(append(pseudo, l4...))
}

func l4Cases() []l4Case {
	var cases []l4Case
	for tags := range 3 {
		for _, udp := range []bool{false, true} {
			for _, payload := range []int{0, 1, 7, 100, 1400} {
				cases = append(cases,
					l4Case{tags: tags, udp: udp, payload: payload, padding: 6},
					l4Case{tags: tags, udp: udp, payload: payload, options: 8},
					l4Case{tags: tags, udp: udp, payload: payload, ipv6: true},
					l4Case{tags: tags, udp: udp, payload: payload, ipv6: true, ext: true, padding: 3})
			}
		}
	}
	return cases
}

func TestB24CsumInSoftware(t *testing.T) {
	for _, c := range l4Cases() {
		for _, segSize := range []int{0, 133} {
			frame, l2, l3 := c.build()
			r := newRig(t, StreamConfig{}, frame)
			r.rx.segSize = segSize
			Csum.Forward(r.Stream)
			got := r.tx.sent[0]
			if len(got.Bytes) != len(frame) || got.Flags != 0 {
				t.Fatalf("%v: %d bytes with flags %#x", c, len(got.Bytes), got.Flags)
			}
			if sum := c.verify(got.Bytes, l2, l3); sum != 0 {
				t.Errorf("%v, segments of %d: L4 checksum is off by %04x", c, segSize, sum)
			}
			if !c.ipv6 && slowSum(got.Bytes[l2:l2+l3]) != 0 {
				t.Errorf("%v: IPv4 header checksum is wrong", c)
			}
			r.accounted(t)
		}
	}
}

func TestB24CsumAsksThePort(t *testing.T) {
	for _, c := range l4Cases() {
		frame, l2, l3 := c.build()
		r := newRig(t, StreamConfig{TxOffloads: port.TxTCPCksum | port.TxUDPCksum, KeepMACs: true}, frame)
		Csum.Forward(r.Stream)
		got := r.tx.sent[0]
		want := sent{Bytes: got.Bytes, Segments: 1, L2: uint16(l2), L3: uint16(l3), L4: 20, Flags: mbuf.TxTCPChecksum}
		if c.udp {
			want.Flags, want.L4 = mbuf.TxUDPChecksum, 8
		}
		family := mbuf.TxIPv4
		if c.ipv6 {
			family = mbuf.TxIPv6
		}
		want.Flags |= family
		if got.Flags != want.Flags || got.L2 != want.L2 || got.L3 != want.L3 || got.L4 != want.L4 {
			t.Errorf("%v: %+v, want %+v", c, got, want)
		}
		if !c.ipv6 && slowSum(got.Bytes[l2:l2+l3]) != 0 {
			t.Errorf("%v: IPv4 header checksum is wrong", c)
		}
	}
}

func TestB24TSOOnlyWhereItFits(t *testing.T) {
	for _, tt := range []struct {
		c    l4Case
		size int
		tso  bool
	}{
		{l4Case{payload: 1001}, 1000, true},
		{l4Case{payload: 1000, padding: 40}, 1000, false},
		{l4Case{payload: 1001, ipv6: true}, 1000, true},
		{l4Case{payload: 1001, udp: true}, 1000, false},
		{l4Case{payload: 1001}, 0, false},
	} {
		frame, l2, l3 := tt.c.build()
		r := newRig(t, StreamConfig{TSOSize: tt.size}, frame)
		Csum.Forward(r.Stream)
		got := r.tx.sent[0]
		if asked := got.Flags&mbuf.TxTSO != 0; asked != tt.tso {
			t.Errorf("%v, size %d: TSO %t, want %t", tt.c, tt.size, asked, tt.tso)
		}
		if tt.tso && (got.SegSize != 1000 || got.L4 != 20) {
			t.Errorf("%v: %+v", tt.c, got)
		}
		if !tt.c.ipv6 && slowSum(got.Bytes[l2:l2+l3]) != 0 {
			t.Errorf("%v: IPv4 header checksum is wrong", tt.c)
		}
	}
}

func TestB24CsumLeavesAlone(t *testing.T) {
	noUDPSum, l2, l3 := l4Case{udp: true, payload: 20}.build()
	noUDPSum[l2+l3+6], noUDPSum[l2+l3+7] = 0, 0
	fragment, _, _ := l4Case{payload: 50}.build()
	fragment[20] = 0x20
	arp := make([]byte, 60)
	arp[12], arp[13] = 8, 6
	longer, _, _ := l4Case{payload: 10}.build()
	longer[16] = 0xff
	for name, frame := range map[string][]byte{"UDP without checksum": noUDPSum, "fragment": fragment, "ARP": arp, "length beyond the frame": longer} {
		r := newRig(t, StreamConfig{TxOffloads: port.TxTCPCksum, KeepMACs: true}, frame)
		Csum.Forward(r.Stream)
		got := r.tx.sent[0]
		// All but the IPv4 header checksum must be as it was.
		copy(got.Bytes[24:26], frame[24:26])
		if string(got.Bytes) != string(frame) || got.Flags != 0 {
			t.Errorf("%s: flags %#x\n%x, was\n%x", name, got.Flags, got.Bytes, frame)
		}
	}
}

func TestUDPChecksumIsNeverZero(t *testing.T) {
	c := l4Case{udp: true, payload: 2}
	frame, l2, l3 := c.build()
	// Choose the payload that makes the sum 0: the sum without it.
	frame[l2+l3+6], frame[l2+l3+7] = 0, 0
	frame[l2+l3+8], frame[l2+l3+9] = 0, 0
	binary.BigEndian.PutUint16(frame[l2+l3+8:], c.verify(frame, l2, l3))
	frame[l2+l3+7] = 1 // not "none"
	r := newRig(t, StreamConfig{}, frame)
	Csum.Forward(r.Stream)
	got := r.tx.sent[0].Bytes
	if sum := binary.BigEndian.Uint16(got[l2+l3+6:]); sum != 0xffff {
		t.Errorf("checksum %04x, want ffff", sum)
	}
}

func FuzzCsum(f *testing.F) {
	for _, c := range l4Cases()[:8] {
		frame, _, _ := c.build()
		f.Add(frame, uint16(0))
		f.Add(frame, uint16(30))
	}
	f.Fuzz(func(t *testing.T, frame []byte, segSize uint16) {
		if len(frame) == 0 || len(frame) > 1500 {
			return
		}
		r := newRig(t, StreamConfig{TSOSize: 100, TxOffloads: port.TxUDPCksum}, frame)
		r.rx.segSize = max(int(segSize), 16)
		Csum.Forward(r.Stream)
		if got := r.tx.sent[0]; len(got.Bytes) != len(frame) || int(got.L2+got.L3+got.L4) > len(frame) && got.Flags != 0 {
			t.Errorf("%+v of a frame of %d bytes", got, len(frame))
		}
		r.accounted(t)
	})
}
