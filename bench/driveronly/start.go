package driveronly

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/turns"
)

// startBar is what a start may take at most, as a part of DPDK's.
const startBar = 0.2

// StartTables start both front ends anew for each window, in turn, and measure how long
// it takes from the start of the program to its first packet, and what memory it has by
// the end of the window. With an error both say so.
func StartTables(ctx context.Context, w Where) (start, memory report.Table, err error) {
	at := report.Coordinates{Topology: "transmit", Ring: "split", Tx: "simple", Size: frameLen + 4, Queues: 1}
	both := report.Cell{
		Name: "front-end", At: at,
		Against: report.Contestant{Name: "DPDK"}, Of: report.Contestant{Name: "vionet"},
	}
	start = report.Table{
		Name: "start", Title: "From the start of the program to its first packet", Unit: report.Milliseconds,
		Note: "testpmd txonly with 16384 buffers, in as many hugepages as it takes, on a back end that waits for it.",
	}
	memory = report.Table{
		Name: "memory", Title: "Memory of a front end", Unit: report.Mebibytes,
		Note: "Resident memory and hugepages of the same testpmds, while they send.",
	}
	launched, held := both, both
	launched.Bar, held.Bar = report.Bar{Most: startBar}, report.Bar{Most: 1}
	result, err := turns.Compete(ctx, w.Plan,
		w.launcher("DPDK", withoutReserve(testpmd(peer.DPDK, at))), w.launcher("vionet", withoutReserve(testpmd(peer.Vionet, at))))
	if err != nil {
		launched.Missing, held.Missing = report.Reason(err), report.Reason(err)
	} else {
		result.Fill(&launched, 0, 1, launch.millis)
		result.Fill(&held, 0, 1, launch.mebibytes)
	}
	start.Cells, memory.Cells = []report.Cell{launched}, []report.Cell{held}
	return start, memory, err
}

// withoutReserve leaves it to a testpmd how much memory it takes.
func withoutReserve(command front) front {
	return func(w Where, socket string) []string {
		argv := command(w, socket)
		at := slices.Index(argv, "-m")
		return slices.Delete(argv, at, at+2)
	}
}

// launch is what one start took.
type launch struct {
	took   time.Duration
	memory int64 // bytes
}

func (l launch) millis() float64    { return float64(l.took) / 1e6 }
func (l launch) mebibytes() float64 { return float64(l.memory) / (1 << 20) }

// launcher starts a front end in each window.
type launcher struct {
	Where
	name  string
	dir   string
	front front
	turn  int
}

func (w Where) launcher(name string, command front) turns.Starter[launch] {
	return func(_ context.Context, dir string) (turns.Contestant[launch], error) {
		return &launcher{Where: w, name: name, dir: dir, front: command}, nil
	}
}

// Kill has nothing to do: every window ends what it started.
func (l *launcher) Kill() {}

// firstPacket is how long a front end may take until its first packet.
const firstPacket = 20 * time.Second

// Measure starts a back end and, once it listens, the front end.
func (l *launcher) Measure(ctx context.Context, window time.Duration) (m launch, err error) {
	l.turn++
	g := &peer.Group{Name: l.name}
	defer g.Kill()
	file := func(end string) string { return filepath.Join(l.dir, fmt.Sprintf("%s-%d%s", l.name, l.turn, end)) }
	back, err := g.Start(ctx, file("-back.log"), l.Back, []string{l.Vionet, "bench", BackendCommand, "--socket", file(".sock")})
	if err != nil {
		return m, err
	}
	if err := back.Ready(); err != nil {
		return m, err
	}
	begin := monotonic()
	front, err := g.Start(ctx, file("-front.log"), l.Front, l.front(l.Where, file(".sock")))
	if err != nil {
		return m, err
	}
	first, err := waitFirst(ctx, back, front)
	if err != nil {
		return m, err
	}
	m.took = first - begin
	if err := turns.Sleep(ctx, window); err != nil {
		return m, err
	}
	m.memory, err = memoryOf(front.PID())
	return m, err
}

// waitFirst is when the back end saw the first packet.
func waitFirst(ctx context.Context, back, front *peer.Process) (time.Duration, error) {
	for begin := time.Now(); time.Since(begin) < firstPacket; {
		if err := turns.Sleep(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
		if err := front.Alive(); err != nil {
			return 0, err
		}
		answer, err := back.Ask("look", lookAnswer)
		if err != nil {
			return 0, err
		}
		l, err := parseLook(answer)
		if err != nil || l.first > 0 {
			return l.first, err
		}
	}
	return 0, fmt.Errorf("%s: no packet in %v", front.Program, firstPacket)
}

// monotonic is a clock that all processes of the machine share.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // there is one on every Linux
	return time.Duration(ts.Nano())
}

// memoryOf is what a process has of the machine's memory, in bytes: pages of every kind
// that are resident, and hugepages, which the kernel does not count among them.
func memoryOf(pid int) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	total := int64(0)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if key != "VmRSS" && key != "HugetlbPages" {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/status: %s: %w", pid, key, err)
		}
		total += kilobytes << 10
	}
	return total, nil
}
