package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/sender"
	"vionet/bench/turns"
	"vionet/scripts/lab"
)

// zeroCopyRow is a row of the published table: processor of the sender in per
// cent, and packets a second.
type zeroCopyRow struct {
	size                  int
	zeroCopy, copied, udp published
}

type published struct{ cpu, rate float64 }

func (p published) String() string {
	if p.rate == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%, %.2f", p.cpu, p.rate/1e6)
}

var zeroCopyRows = []zeroCopyRow{
	{64, published{28.7, 3833857}, published{100, 1916747}, published{100, 713274}},
	{512, published{38.5, 3689491}, published{100, 1775988}, published{100, 701024}},
	{1456, published{38.9, 2787096}, published{100, 1440054}, published{100, 695832}},
}

// zeroCopyFloor is the ratio of zero copy to the copying API that is to be reached,
// unless the host is what limits.
const zeroCopyFloor = 2.0

// The paced sender: the published rate, and the share of a processor that it may
// take.
const (
	pacedSize    = 64
	pacedRate    = 3_800_000
	pacedCeiling = 0.3
)

// blaster starts the senders of one frame size.
type blaster struct {
	size   int
	blast  string // the binary of examples/udpblast
	vionet string // this binary
}

// ZeroCopy prints the tables of sending from the application's own memory, and
// otherwise.
func (s Settings) ZeroCopy(ctx context.Context) error {
	restore, err := s.begin()
	if err != nil {
		return err
	}
	defer restore()
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := blaster{vionet: s.Vionet}
	if b.blast, err = lab.Build(ctx, dir, "./examples/udpblast"); err != nil {
		return err
	}
	s.printf("\n### Sending from the application's own memory\n\n")
	s.println("| size | sender | CPU | Mpps | to copying q1 | median | q3 | to reach | published CPU, Mpps |")
	s.println("|---|---|---|---|---|---|---|---|---|")
	for _, row := range zeroCopyRows {
		if s.matches(fmt.Sprintf("%d B", row.size)) {
			if b.size = row.size; err == nil {
				err = s.printSenders(ctx, b, row)
			}
		}
	}
	if err != nil || !s.matches("paced") {
		return err
	}
	b.size = pacedSize
	return s.printPaced(ctx, b)
}

// printSenders measures all ways to send frames of one size.
func (s Settings) printSenders(ctx context.Context, b blaster, row zeroCopyRow) error {
	lines := []struct {
		name      string
		start     turns.Starter[peer.Sample]
		floor     float64
		published published
	}{
		{"copying API", b.vionetSender("copy", "--copy"), 0, row.copied},
		{"zero copy, sleeping", b.vionetSender("sleep", "--sleep"), zeroCopyFloor, row.zeroCopy},
		{"zero copy, polling", b.vionetSender("poll"), zeroCopyFloor, published{}},
		{"kernel UDP, sendmmsg", b.kernelSender("udp"), 0, row.udp},
		{"AF_XDP, copy mode on a veth", b.kernelSender("xdp"), 0, published{}},
	}
	var starters []turns.Starter[peer.Sample]
	for _, l := range lines {
		starters = append(starters, l.start)
	}
	r, err := turns.Compete(ctx, s.plan(), starters...)
	if err != nil {
		return fmt.Errorf("%d B: %w", b.size, err)
	}
	for i, l := range lines {
		ratio := report.QuartilesOf(turns.Ratios(r.Samples[i], r.Samples[0], peer.Sample.Packets))
		s.printf("| %d B | %s | %.0f %% | %.2f | %.2f | **%.2f** | %.2f | %s | %v |\n", b.size, l.name,
			100*turns.Median(r.Samples[i], peer.Sample.Processor), turns.Median(r.Samples[i], peer.Sample.Packets)/1e6, ratio.Q1, ratio.Median, ratio.Q3, bar(l.floor), l.published)
	}
	return nil
}

// printPaced measures what the published rate costs.
func (s Settings) printPaced(ctx context.Context, b blaster) error {
	r, err := turns.Compete(ctx, s.plan(), b.vionetSender("paced", "--sleep", "--rate", strconv.Itoa(pacedRate)))
	if err != nil {
		return fmt.Errorf("paced: %w", err)
	}
	cpu := report.QuartilesOf(turns.Each(r.Samples[0], peer.Sample.Processor))
	s.printf("\n### Zero copy at %.1f Mpps, %d B\n\n", float64(pacedRate)/1e6, pacedSize)
	s.println("| Mpps | CPU q1 | CPU median | CPU q3 | at most |")
	s.println("|---|---|---|---|---|")
	s.printf("| %.2f | %.0f %% | **%.0f %%** | %.0f %% | %.0f %% |\n", turns.Median(r.Samples[0], peer.Sample.Packets)/1e6, 100*cpu.Q1, 100*cpu.Median, 100*cpu.Q3, 100*pacedCeiling)
	return nil
}

// Cores of a host that receives, and of a sender.
const (
	receiveCore = 0
	sendCore    = 1
)

// vionetSender is examples/udpblast on DPDK's vhost, which counts what arrives.
func (b blaster) vionetSender(name string, options ...string) turns.Starter[peer.Sample] {
	return func(ctx context.Context, dir string) (_ turns.Contestant[peer.Sample], err error) {
		p := &peer.Group{Name: name}
		defer func() {
			if err != nil {
				p.Kill()
			}
		}()
		s := peer.Socket(dir, name, 0)
		argv := append(peer.DPDK.Command(b.vionet, name, receiveCore), "--vdev", backEnd(0, s), "--", "-i", "--forward-mode=rxonly", "--no-lsc-interrupt", "--total-num-mbufs=16384")
		host, err := p.Start(ctx, filepath.Join(dir, name+"-host.log"), receiveCore, argv)
		if err != nil {
			return nil, err
		}
		p.Count = host.Counter(0, "RX-packets")
		if err := host.Ready(); err != nil {
			return nil, err
		}
		if err := host.Send("start"); err != nil {
			return nil, err
		}
		argv = append([]string{b.blast, "--size", strconv.Itoa(b.size), "--seconds", "3600"}, options...)
		if p.Worker, err = p.Start(ctx, filepath.Join(dir, name+".log"), sendCore, append(argv, "-a", s)); err != nil {
			return nil, err
		}
		return p, p.Settle(ctx)
	}
}

// kernelSender is a sender over a veth pair.
func (b blaster) kernelSender(way string) turns.Starter[peer.Sample] {
	return func(ctx context.Context, dir string) (_ turns.Contestant[peer.Sample], err error) {
		p := &peer.Group{Name: way}
		defer func() {
			if err != nil {
				p.Kill()
			}
		}()
		argv := []string{b.vionet, "bench", sender.Command, "--size", strconv.Itoa(b.size), way}
		if p.Worker, err = p.StartApart(ctx, filepath.Join(dir, way+".log"), sendCore, argv); err != nil {
			return nil, err
		}
		if err := p.Worker.WaitFor(sender.Ready, 10*time.Second); err != nil {
			return nil, err
		}
		pid := p.Worker.PID()
		p.Count = func() (uint64, error) { return sentPackets(pid, sender.Interface) }
		return p, p.Settle(ctx)
	}
}

// sentPackets is how many packets an interface has sent, in the network namespace
// of a process.
func sentPackets(pid int, name string) (uint64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/net/dev", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const transmitted = 9 // the column, behind eight of what was received and one of bytes
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if counters, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), name+":"); ok {
			if columns := strings.Fields(counters); len(columns) > transmitted {
				return strconv.ParseUint(columns[transmitted], 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("no interface %s in the network of process %d", name, pid)
}
