package offload_test

import (
	"bytes"
	"testing"

	"vionet/offload"
)

// What belongs to a flow, and what tells two apart.
func TestFlowHash(t *testing.T) {
	udp := []byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00" + "E\x00\x00\x32\x00\x00\x00\x00\x40\x11\x00\x00" +
		"\xc6\x12\x00\x01" + "\xc6\x12\x00\x02" + "\x00\x07\x00\x09\x00\x1e\x00\x00" + "some payload of 22 byte")
	ipv4 := func(change func(ip []byte)) []byte {
		f := bytes.Clone(udp)
		change(f[14:])
		return f
	}
	same := func([]byte) {}
	ipv6 := append([]byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x86\xdd"+"`...nn\x11h"+"from this place.to that place..."), 0, 1, 0, 2, 0, 8, 0, 0)
	other := bytes.Clone(ipv6)
	other[14+41]++ // the source port
	for name, c := range map[string]struct {
		a, b []byte
		same bool
	}{
		"a packet":                  {ipv4(same), ipv4(same), true},
		"another payload":           {ipv4(same), ipv4(func(ip []byte) { ip[40]++ }), true},
		"another time to live":      {ipv4(same), ipv4(func(ip []byte) { ip[8]++ }), true},
		"another source":            {ipv4(same), ipv4(func(ip []byte) { ip[15]++ }), false},
		"another destination":       {ipv4(same), ipv4(func(ip []byte) { ip[19]++ }), false},
		"another protocol":          {ipv4(same), ipv4(func(ip []byte) { ip[9] = 6 }), false},
		"another source port":       {ipv4(same), ipv4(func(ip []byte) { ip[21]++ }), false},
		"another destination port":  {ipv4(same), ipv4(func(ip []byte) { ip[23]++ }), false},
		"first and second fragment": {ipv4(func(ip []byte) { ip[6] = 0x20 }), ipv4(func(ip []byte) { ip[7], ip[21] = 9, 1 }), true},
		"options": {ipv4(func(ip []byte) { ip[0] = 0x46; copy(ip[24:], ip[20:]) }), ipv4(func(ip []byte) {
			ip[0] = 0x46
			copy(ip[24:], ip[20:])
			ip[20]++ // of the options
		}), true},
		"a header that is cut off": {ipv4(func(ip []byte) { ip[0] = 0x4f }), ipv4(func(ip []byte) { ip[0] = 0x4f; ip[21]++ }), true},
		"IPv6":                     {ipv6, bytes.Clone(ipv6), true},
		"another port over IPv6":   {ipv6, other, false},
	} {
		a, okA := offload.FlowHash(c.a)
		b, okB := offload.FlowHash(c.b)
		if !okA || !okB || (a == b) != c.same {
			t.Errorf("%s: %x and %x (%v, %v), want equal: %v", name, a, b, okA, okB, c.same)
		}
	}
	for name, f := range map[string][]byte{
		"ARP": append(make([]byte, 12), 8, 6, 0, 1), "IPv4 cut short": append(make([]byte, 12), 8, 0, 0x45),
		"no frame": {1}, "IPv6 cut short": ipv6[:50],
	} {
		if _, ok := offload.FlowHash(f); ok {
			t.Errorf("%s has a flow", name)
		}
	}
}
