package testpmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	pkt "github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"vionet/capture"
	"vionet/mbuf"
	"vionet/port"
	"vionet/scripts/lab"
)

// captured is a pcapng file: packets by the names of their interfaces.
type captured struct {
	interfaces []string
	packets    map[string][][]byte
	times      []time.Time
	cut        int // packets of which bytes are missing
}

func readCapture(t *testing.T, path string) captured {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	c := captured{packets: map[string][][]byte{}}
	for {
		data, info, err := r.ReadPacketData()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err := r.Interface(info.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		if info.Length > len(data) {
			c.cut++
		}
		c.packets[i.Name] = append(c.packets[i.Name], data)
		c.times = append(c.times, info.Timestamp)
	}
	for i := range r.NInterfaces() {
		iface, err := r.Interface(i)
		if err != nil {
			t.Fatal(err)
		}
		if iface.TimestampResolution.Exponent() != 9 {
			t.Errorf("interface %s: resolution %v", iface.Name, iface.TimestampResolution)
		}
		c.interfaces = append(c.interfaces, iface.Name)
	}
	return c
}

func TestCaptureInTraffic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.pcapng")
	b := startedBench(t, 2, func(c *Config) {
		c.Options.RxQueues, c.Options.TxQueues, c.Options.NbCores, c.Options.FlushRx = 2, 2, 2, false
	})
	b.run("start tx_first 2")
	begin := time.Now()
	if got, want := b.run("capture start "+path), "Capture to "+path+" started\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := b.run("capture start " + path); got != "Capture to "+path+" already started\n" {
		t.Errorf("second start: %q", got)
	}
	eventually(t, "packets are captured", func() bool { written, _ := b.capture.Counts(); return written > 100 })
	if stats := b.run("show fwd stats all"); !strings.Contains(stats, "  Capture to "+path+": ") {
		t.Errorf("statistics do not speak of the capture:\n%s", stats)
	}
	said := b.run("capture stop")
	end := time.Now()
	if b.fwd == nil || b.fwd.stop.Load() {
		t.Error("forwarding has stopped")
	}
	b.run("stop", "port stop all")
	if b.pool.Free() != b.pool.Size() {
		t.Errorf("%d of %d buffers are back", b.pool.Free(), b.pool.Size())
	}

	c := readCapture(t, path)
	want := []string{"port0-rx-q0", "port0-rx-q1", "port0-tx-q0", "port0-tx-q1", "port1-rx-q0", "port1-rx-q1", "port1-tx-q0", "port1-tx-q1"}
	if diff := cmp.Diff(want, c.interfaces); diff != "" {
		t.Errorf("interfaces (-want +got)\n%s", diff)
	}
	total := 0
	for name, packets := range c.packets {
		total += len(packets)
		for _, p := range packets {
			if len(p) != 64 || p[14] != 0x45 {
				t.Fatalf("%s: %x", name, p)
			}
		}
	}
	if !strings.HasPrefix(said, fmt.Sprintf("  Capture to %s: %d packets, ", path, total)) || c.cut > 0 {
		t.Errorf("%d packets in the file, %d cut; the console says %q", total, c.cut, said)
	}
	for _, at := range c.times {
		if at.Before(begin) || at.After(end) {
			t.Fatalf("packet at %v, captured from %v to %v", at, begin, end)
		}
	}
	if got := b.run("capture stop"); got != "Capture not started\n" {
		t.Errorf("second stop: %q", got)
	}
}

// frameTo is a UDP packet in two segments to the destination port.
func frameTo(pool *mbuf.Pool, port uint16, size int) *mbuf.Buf {
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	ip := &pkt.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: pkt.IPProtocolUDP, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, byte(port)}}
	udp := &pkt.UDP{SrcPort: 1000, DstPort: pkt.UDPPort(port)}
	udp.SetNetworkLayerForChecksum(ip)
	out := gopacket.NewSerializeBuffer()
	gopacket.SerializeLayers(out, opts,
		&pkt.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2}, EthernetType: pkt.EthernetTypeIPv4},
		ip, udp, gopacket.Payload(make([]byte, size)))
	frame := out.Bytes()
	head, tail := pool.Get(), pool.Get()
	copy(head.Append(50), frame)
	copy(tail.Append(len(frame)-50), frame[50:])
	head.Chain(tail)
	return head
}

// still is a queue that has received what stands in a burst already, and one that
// sends it and leaves it alone.
type still struct {
	port.RxQueue
	port.TxQueue
}

func (still) Burst(pkts []*mbuf.Buf) int     { return len(pkts) }
func (still) UseCache(*mbuf.Cache)           {}
func (still) Err() error                     { return nil }
func (still) Wait(ctx context.Context) error { return ctx.Err() }

func TestCaptureSelection(t *testing.T) {
	for words, want := range map[string][]string{
		"":                               {"port0-rx-q0 5", "port0-rx-q0 6", "port0-tx-q0 5", "port0-tx-q0 6", "port1-rx-q0 5", "port1-rx-q0 6", "port1-tx-q0 5", "port1-tx-q0 6"},
		"tx":                             {"port0-tx-q0 5", "port0-tx-q0 6", "port1-tx-q0 5", "port1-tx-q0 6"},
		"port 1":                         {"port1-rx-q0 5", "port1-rx-q0 6", "port1-tx-q0 5", "port1-tx-q0 6"},
		"port 1 rx port 6":               {"port1-rx-q0 6"},
		"port 1 rx filter port 6 and ip": {"port1-rx-q0 6"},
		"rx filter port 5":               {"port0-rx-q0 5", "port1-rx-q0 5"},
		"rx host 10.0.0.6 and udp":       {"port0-rx-q0 6", "port1-rx-q0 6"},
		"rx host 10.0.0.6 and tcp":       nil,
		"arp":                            nil,
	} {
		b := startedBench(t, 2, nil)
		path := filepath.Join(t.TempDir(), "some.pcapng")
		if said := b.run("capture start " + path + " " + words); !strings.HasSuffix(said, "started\n") {
			t.Errorf("%q: %s", words, said)
			continue
		}
		pkts := []*mbuf.Buf{frameTo(b.pool, 5, 100), frameTo(b.pool, 6, 1000)}
		for id := range 2 {
			from := capture.Source{Port: id}
			b.tap.RxQueue(still{}, from).Burst(pkts)
			b.tap.TxQueue(still{}, from).Burst(pkts)
		}
		b.run("capture stop")
		c := readCapture(t, path)
		var got []string
		for _, name := range c.interfaces {
			for _, p := range c.packets[name] {
				got = append(got, fmt.Sprintf("%s %d", name, p[37]))
				whole := bytes.Join([][]byte{pkts[p[37]-5].Bytes(), pkts[p[37]-5].Next().Bytes()}, nil)
				if !bytes.Equal(p, whole) {
					t.Errorf("%q: %x, want %x", words, p, whole)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", words, diff)
		}
		for _, p := range pkts {
			p.Free()
		}
	}
}

func TestCaptureRefuses(t *testing.T) {
	b := startedBench(t, 1, nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.pcapng")
	for line, want := range map[string]string{
		"capture start " + path + " port 1":            "no such port",
		"capture start " + path + " port x":            "no such port",
		"capture start " + path + " nonsense":          "TERM [and TERM]*",
		"capture start " + path + " host 10.0.0":       "an IPv4 or IPv6 address was expected",
		"capture start " + path + " filter port 65536": "a number up to 65535 was expected",
		"capture start " + path + " tcp udp":           `"and" was expected`,
		"capture start " + path + " tcp and":           "was expected",
		"capture start " + dir:                         "is a directory",
		"capture start " + dir + "/none/x.pcapng":      "no such file",
		"capture start /dev/null":                      "not a regular file",
		"capture":                                      badArgs,
		"capture start":                                badArgs,
	} {
		if got := b.run(line); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
		if b.capture != nil {
			t.Fatalf("%s: started", line)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a refused capture made a file")
	}
	b.run("port stop all", "port close all")
	if got := b.run("capture start " + path); !strings.Contains(got, "no queue") {
		t.Errorf("without ports: %q", got)
	}
}

func TestCaptureIsWholeAfterQuit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.pcapng")
	b := newBench(t, 1, func(c *Config) { c.Options.FlushRx = false })
	script := "capture start " + path + "\nstart tx_first\nstop\nquit\n"
	if err := b.Run(context.Background(), strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	if c := readCapture(t, path); len(c.packets["port0-tx-q0"]) < 32 {
		t.Errorf("%d packets sent, want 32 at least", len(c.packets["port0-tx-q0"]))
	}
}

// tshark finds the queue, the direction and the filter of the console's captures.
func TestTsharkReadsTheConsolesCapture(t *testing.T) {
	lab.Need(t, "tshark")
	path := filepath.Join(t.TempDir(), "x.pcapng")
	b := newBench(t, 1, func(c *Config) { c.Options.FlushRx = false })
	script := "capture start " + path + " udp\nstart tx_first\nstop\nquit\n"
	if err := b.Run(context.Background(), strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, row := range lab.Tshark(t, path, "frame.interface_name", "frame.interface_queue", "frame.packet_flags_direction", "udp.dstport") {
		seen[strings.Join(row, " ")]++
	}
	if seen["port0-tx-q0 0 0x00000002 9"] < 32 || len(seen) > 2 || len(seen) == 2 && seen["port0-rx-q0 0 0x00000001 9"] == 0 {
		t.Errorf("%v", seen)
	}
}
