package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"vionet/mbuf"
	"vionet/port"
	"vionet/port/pcapport"
	"vionet/scripts/lab"
	"vionet/testpmd"
	"vionet/testpmd/engine"
)

// run is one way to forward the samples.
type run struct {
	name  string
	setup []string // lines before the port is started
	start []string // lines that make packets move
	bytes int      // of each packet that count; 0: all
}

var runs = []run{
	{"io", nil, []string{"set fwd io", "start"}, 0},
	{"mac", nil, []string{"set fwd mac", "start"}, 0},
	{"macswap", nil, []string{"set fwd macswap", "start"}, 0},
	{"5tswap", nil, []string{"set fwd 5tswap", "start"}, 0},
	{"csum", nil, []string{"set fwd csum", "start"}, 0},
	{"csum without MAC addresses", []string{"csum mac-swap off 0"}, []string{"set fwd csum", "start"}, 0},
	{"csum in tunnels", []string{"csum parse-tunnel on 0"}, []string{"set fwd csum", "start"}, 0},
	{"csum in segments", []string{"set txpkts 100,100,50", "set txsplit on"}, []string{"set fwd csum", "start"}, 0},
	{"icmpecho", nil, []string{"set fwd icmpecho", "start"}, 0},
	{"one burst of txonly", []string{"set txpkts 80"}, []string{"set fwd rxonly", "start tx_first"}, engine.MinTxLen}, // the rest is what the buffer held
}

// differs gives the reason why a packet leaves otherwise than it leaves DPDK's
// testpmd, or "".
func differs(run, packet string) string {
	csum, tunnels := strings.HasPrefix(run, "csum"), run == "csum in tunnels"
	switch {
	case csum && packet == "SCTP":
		return "testpmd writes zero for the CRC"
	case csum && packet == "IPv4 fragment":
		return "testpmd takes the checksum of a part for that of the whole"
	case (csum || run == "5tswap") && packet == "UDP behind IPv6 options":
		return "testpmd looks behind no extension header"
	case tunnels && strings.HasPrefix(packet, "IPIP") && strings.Contains(packet, ": IPv6"):
		return "IPv6 in IP is protocol 41, which testpmd does not look into"
	}
	return ""
}

// TestCsumLikeDPDK plays the same file through DPDK's testpmd and through this
// one: the files that come out hold the same bytes.
func TestCsumLikeDPDK(t *testing.T) {
	lab.Need(t, "dpdk")
	names, frames := engine.Samples(t)
	dir := t.TempDir()
	in := filepath.Join(dir, "in.pcap")
	writeFrames(t, in, frames)

	for i, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			want := theirs(t, in, filepath.Join(dir, fmt.Sprintf("theirs%d.pcap", i)), r, len(frames))
			got, _ := ours(t, in, filepath.Join(dir, fmt.Sprintf("ours%d.pcap", i)), r, len(frames))
			compare(t, r, names, got, want)
		})
	}
}

func compare(t *testing.T, r run, names []string, got, want [][]byte) {
	t.Helper()
	if len(want) == 0 || len(want) != len(got) {
		t.Fatalf("%d packets, DPDK sends %d", len(got), len(want))
	}
	for i := range want {
		name := fmt.Sprint("packet ", i)
		if len(want) == len(names) {
			name = names[i]
		}
		n := len(want[i])
		if r.bytes > 0 {
			n = r.bytes
		}
		same := len(got[i]) == len(want[i]) && bytes.Equal(got[i][:n], want[i][:n])
		switch reason := differs(r.name, name); {
		case same && reason != "":
			t.Errorf("%s is the same, though %s", name, reason)
		case !same && reason == "":
			t.Errorf("%s:\n%x, DPDK sends\n%x", name, got[i], want[i])
		}
	}
}

// startDPDK starts testpmd with a port that reads in and writes out.
func startDPDK(t *testing.T, in, out string, r run) *lab.Process {
	t.Helper()
	dpdk := lab.Testpmd(t, lab.DPDK{
		Vdevs:     []string{fmt.Sprintf("net_pcap0,rx_pcap=%s,tx_pcap=%s", in, out)},
		Arguments: []string{"--no-flush-rx", "--no-lsc-interrupt", "--disable-link-check"},
	})
	for _, line := range append(append(append([]string{"port stop 0"}, r.setup...), "port start 0"), r.start...) {
		lab.Command(t, dpdk.Console, line)
	}
	return dpdk
}

// theirs plays the file through DPDK's testpmd and gives what comes out.
func theirs(t *testing.T, in, out string, r run, packets int) [][]byte {
	t.Helper()
	dpdk := startDPDK(t, in, out, r)
	received := fmt.Sprintf("RX-packets: %d ", packets)
	for range 100 {
		if strings.Contains(lab.Command(t, dpdk.Console, "show port stats 0"), received) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	lab.Command(t, dpdk.Console, "stop")
	return readFrames(t, out)
}

// ours plays the file through a console of this project, and gives what comes out
// and what the console says.
func ours(t *testing.T, in, out string, r run, packets int) (frames [][]byte, transcript string) {
	t.Helper()
	const count = 2048
	mem, err := mbuf.NewMemory(mbuf.MemoryConfig{Size: count*mbuf.Stride(mbuf.DefaultSize) + 4096, NoHuge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	pool, err := mbuf.NewPool(mem, mbuf.PoolConfig{Count: count})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pcapport.New(pcapport.Config{RxFiles: []string{in}, TxFiles: []string{out}})
	if err != nil {
		t.Fatal(err)
	}
	opts := testpmd.DefaultOptions()
	opts.Interactive, opts.FlushRx = true, false
	var said bytes.Buffer
	console, err := testpmd.New(testpmd.Config{Ports: []port.Port{p}, Pool: pool, Cores: []testpmd.Core{{ID: 1}}, Out: &said, Err: &said, Options: opts})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range append(append(append([]string{}, r.setup...), "port start 0"), r.start...) {
		console.Exec(line)
	}
	for range 200 {
		if p.Stats().RxPackets == uint64(packets) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, line := range []string{"stop", "port stop 0", "port close 0"} {
		console.Exec(line)
	}
	if pool.Free() != pool.Size() {
		t.Errorf("%s: %d of %d buffers are back", r.name, pool.Free(), pool.Size())
	}
	if t.Failed() {
		t.Log(said.String())
	}
	return readFrames(t, out), said.String()
}

// Descriptions of packets, and what is not to be compared in them: addresses in
// memory, the time that DPDK's port adds, and what ports classify.
var (
	// DPDK's console writes its prompt letter by letter, and what forwarding says
	// gets in between by lines: some of them begin with a piece of the prompt.
	description = regexp.MustCompile(`(?m)^[testpmd> ]*?((?:src=|port=|rx: |tx: ).*)$`)
	ofTheRun    = regexp.MustCompile(`mbuf=0x[0-9a-f]+| - timestamp \d+|hw ptype: [A-Z0-9_ ]+ - `)
	spaces      = regexp.MustCompile(` +`)
)

func descriptions(said string) (lines []string) {
	said = spaces.ReplaceAllString(ofTheRun.ReplaceAllString(said, ""), " ")
	for _, m := range description.FindAllStringSubmatch(said, -1) {
		lines = append(lines, m[1])
	}
	return lines
}

// TestVerboseLikeDPDK compares what the two say of packets.
func TestVerboseLikeDPDK(t *testing.T) {
	lab.Need(t, "dpdk")
	names, frames := engine.Samples(t)
	for i := len(names) - 1; i >= 0; i-- {
		if differs("csum in tunnels", names[i]) != "" {
			frames = slices.Delete(frames, i, i+1)
		}
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "in.pcap")
	writeFrames(t, in, frames)
	r := run{"csum in tunnels", []string{"csum parse-tunnel on 0", "set verbose 1", "set fwd csum"}, nil, 0}
	dpdk := startDPDK(t, in, filepath.Join(dir, "theirs.pcap"), r)
	// The prompt behind it may come in pieces: see description.
	if err := dpdk.Send("start"); err != nil {
		t.Fatal(err)
	}
	r.start = []string{"start"}
	_, said := ours(t, in, filepath.Join(dir, "ours.pcap"), r, len(frames))
	got := descriptions(said)
	for range 200 {
		if len(descriptions(dpdk.Transcript())) >= len(got) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := dpdk.Send("stop"); err != nil {
		t.Fatal(err)
	}
	if _, err := dpdk.Expect(t.Context(), "\nDone.\n"); err != nil { // the last line is whole by then
		t.Fatal(err)
	}
	want := descriptions(dpdk.Transcript())
	if len(got) < 4*len(frames) {
		t.Errorf("%d lines about %d packets", len(got), len(frames))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-DPDK +ours)\n%s", diff)
	}
}

func writeFrames(t *testing.T, path string, frames [][]byte) {
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
	for _, frame := range frames {
		if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}, frame); err != nil {
			t.Fatal(err)
		}
	}
}

func readFrames(t *testing.T, path string) [][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for {
		frame, _, err := r.ReadPacketData()
		if err == io.EOF {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, frame)
	}
}
