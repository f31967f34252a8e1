package frames

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// A file of flows has each flow equally often, in frames of the right size with
// right checksums, and not one after the other.
func TestFlowsOfAFile(t *testing.T) {
	for _, c := range []struct{ flows, size, each int }{{10, 64, 103}, {32, 512, 32}, {1000, 64, 2}} {
		path := filepath.Join(t.TempDir(), "flows.pcap")
		if err := WriteFlows(path, c.flows, c.size); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := pcapgo.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[gopacket.Flow]int{}
		var before gopacket.Flow
		again := 0 // frames of the same flow as the one before
		for {
			frame, _, err := r.ReadPacketData()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(frame) != c.size {
				t.Fatalf("a frame has %d bytes, want %d", len(frame), c.size)
			}
			p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
			if ip, udp := frame[14:34], frame[34:]; sum(ip) != 0xffff || sum(ip[12:], udp, []byte{0, 17}, udp[4:6]) != 0xffff {
				t.Fatalf("wrong checksums in % x", frame)
			}
			flow := p.NetworkLayer().NetworkFlow()
			seen[flow]++
			if flow == before {
				again++
			}
			before = flow
		}
		if len(seen) != c.flows {
			t.Errorf("%d flows, want %d", len(seen), c.flows)
		}
		for flow, n := range seen {
			if n != c.each {
				t.Errorf("%d frames of %v, want %d", n, flow, c.each)
			}
		}
		if total := c.flows * c.each; again > 2*total/c.flows+10 || c.flows == 10 && again == 0 {
			t.Errorf("of %d frames %d come behind one of their own flow", total, again)
		}
	}
}

func TestFrameShorterThanItsHeaders(t *testing.T) {
	if _, err := UDP(0, Headers-1); err == nil {
		t.Error("no error")
	}
}

// sum is the sum of the pieces in ones' complement (RFC 1071), which is 0xffff
// over everything that a right checksum covers.
func sum(pieces ...[]byte) (total uint32) {
	for _, b := range pieces {
		for i := 0; i < len(b); i += 2 {
			total += uint32(b[i])<<8 | uint32(b[i+1])
		}
	}
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	return total
}
