// Package console holds scripts for the console; its test runs them.
package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"vionet/scripts/lab"
)

// script is what the first lines of a file say.
type script struct {
	run    string
	prints []*regexp.Regexp
}

func readScript(t *testing.T, path string) script {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s script
	for line := range strings.Lines(string(text)) {
		if run, ok := strings.CutPrefix(line, "# Run: "); ok {
			s.run = strings.TrimSpace(run)
		}
		if want, ok := strings.CutPrefix(line, "# prints: "); ok {
			s.prints = append(s.prints, regexp.MustCompile(strings.TrimSpace(want)))
		}
	}
	if s.run == "" || len(s.prints) == 0 {
		t.Fatalf("%s does not say how to run it and what it prints", path)
	}
	return s
}

// scriptLimit is far above what any script takes.
const scriptLimit = time.Minute

func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("*.testpmd")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	bin := t.TempDir()
	if _, err := lab.Build(t.Context(), bin, "./cmd/vionet"); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			s := readScript(t, path)
			dir := t.TempDir()
			writeSample(t, filepath.Join(dir, "in.pcap"))
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, path), text, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", s.run)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			stop := time.AfterFunc(scriptLimit, func() { cmd.Process.Kill() })
			defer stop.Stop()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v", s.run, err)
			}
			// What the script says of itself is echoed, and does not count.
			said := regexp.MustCompile(`(?m)^testpmd> #.*\n`).ReplaceAllString(string(out), "")
			for _, want := range s.prints {
				if !want.MatchString(said) {
					t.Errorf("%s: %q is not printed", path, want)
				}
			}
			for _, bad := range []string{"Command not found", "Bad arguments", "Ambiguous command"} {
				if strings.Contains(said, bad) {
					t.Errorf("%s: %s", path, bad)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}

// writeSample makes a capture file with a ping, and a TCP packet with a wrong
// checksum in a VXLAN tunnel.
func writeSample(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	ether := &layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	ip := func(proto layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: proto, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}}
	}
	outer, inner := ip(layers.IPProtocolUDP), ip(layers.IPProtocolTCP)
	udp, tcp := &layers.UDP{SrcPort: 5, DstPort: 4789}, &layers.TCP{SrcPort: 1, DstPort: 80, Checksum: 0xbad}
	udp.SetNetworkLayerForChecksum(outer)
	tcp.SetNetworkLayerForChecksum(inner)
	for _, list := range [][]gopacket.SerializableLayer{
		{ether, ip(layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0)}, gopacket.Payload("are you there?")},
		{ether, outer, udp, &layers.VXLAN{ValidIDFlag: true, VNI: 42}, ether, inner, tcp, gopacket.Payload("hello")},
	} {
		out := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, list...); err != nil {
			t.Fatal(err)
		}
		frame := out.Bytes()
		frame[len(frame)-10] ^= 0xff // in the TCP checksum, or the ping's text
		if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}, frame); err != nil {
			t.Fatal(err)
		}
	}
}
