package testpmd

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"vionet/testpmd/engine"
)

func TestB18BurstSizes(t *testing.T) {
	for _, tt := range []struct {
		counts map[int]uint64
		want   string
	}{
		{nil, ""},
		{map[int]uint64{0: 5}, "  RX-bursts : 5 [100% of 0 pkts]\n"},
		{map[int]uint64{32: 1599}, "  RX-bursts : 1599 [0% of 0 pkts + 100% of 32 pkts]\n"},
		{map[int]uint64{0: 1, 512: 3}, "  RX-bursts : 4 [25% of 0 pkts + 75% of 512 pkts]\n"},
		{map[int]uint64{0: 50, 32: 30, 7: 20}, "  RX-bursts : 100 [50% of 0 pkts + 30% of 32 pkts + 20% of 7 pkts]\n"},
		{map[int]uint64{0: 10, 1: 20, 2: 40, 3: 30}, "  RX-bursts : 100 [10% of 0 pkts + 40% of 2 pkts + 30% of 3 pkts + 20% of other]\n"},
		{map[int]uint64{3: 1, 4: 1, 5: 1}, "  RX-bursts : 3 [0% of 0 pkts + 33% of 3 pkts + 33% of 4 pkts + 34% of other]\n"},
	} {
		var sizes burstSizes
		for size, n := range tt.counts {
			sizes[size].Store(n)
		}
		if got := sizes.text("RX"); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.counts, got, tt.want)
		}
	}
	if len(burstSizes{}) != engine.MaxBurst+1 {
		t.Error("there is no place for a full burst")
	}
}

func TestB18RecordsOfForwarding(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.run("set record-core-cycles on", "set record-burst-stats on", "set burst 512", "start tx_first 1")
	waitPackets(t, b, 2000)
	out := b.run("stop")
	for _, want := range []string{
		`\n  TX-packets: \d+ +TX-dropped: \d+ +TX-total: \d+\n  RX-bursts : \d+ \[\d+% of 0 pkts`,
		`\]\n  TX-bursts : \d+ \[\d+% of 0 pkts`,
		`\n  \+{76}\n\n  CPU cycles/packet=\d+\.\d\d \(total cycles=\d+ / total io packets=\d+\) at \d+ MHz Clock\n\nDone\.\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s does not match in\n%s", want, out)
		}
	}
	b.run("set record-core-cycles off", "set record-burst-stats off", "start")
	if out := b.run("stop"); strings.Contains(out, "bursts") || strings.Contains(out, "cycles") {
		t.Errorf("%s", out)
	}
	if b.run("port stop 0"); b.pool.Free() != b.pool.Size() {
		t.Errorf("%d of %d buffers are back", b.pool.Free(), b.pool.Size())
	}
}

// waitPackets waits until forwarding has moved so many packets.
func waitPackets(t *testing.T, b *bench, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if b.fwd.totals(0, b.ports[0].Stats()).rx >= n {
			return
		}
	}
	t.Fatalf("forwarding does not reach %d packets", n)
}

// TestB18CountersNeverRunBackwards clears counters while packets move and looks
// for numbers that no packet was there for.
func TestB18CountersNeverRunBackwards(t *testing.T) {
	b := startedBench(t, 1, nil)
	f := b.fakes[0]
	f.mu.Lock()
	f.missed = 1<<32 - 10
	f.mu.Unlock()
	b.run("show port stats 0", "start tx_first 2")
	waitPackets(t, b, 1000)
	f.mu.Lock()
	f.missed += 20
	f.mu.Unlock()
	if out := b.run("show fwd stats all"); !strings.Contains(out, "RX-dropped: 20 ") {
		t.Errorf("a counter that passed 2^32 is shown wrong in\n%s", out)
	}
	for _, clear := range []string{"clear port stats 0", "clear port stats all", "clear port xstats 0", "clear fwd stats all"} {
		f.mu.Lock()
		f.missed = 0 // as the port does
		f.mu.Unlock()
		b.run(clear)
		for _, show := range []string{"show port stats 0", "show port xstats 0", "show fwd stats all"} {
			checkNumbers(t, clear+", "+show, b.run(show))
		}
	}
	checkNumbers(t, "stop", b.run("stop"))
}

// checkNumbers looks for numbers with more digits than a count of packets of a
// few seconds has.
func checkNumbers(t *testing.T, what, out string) {
	t.Helper()
	for _, n := range regexp.MustCompile(`\d+`).FindAllString(out, -1) {
		if len(n) > 14 {
			t.Errorf("%s: %s in\n%s", what, n, out)
		}
	}
}

func TestB18StatisticsBeforeTheFirstStart(t *testing.T) {
	b := newBench(t, 1, nil)
	for _, line := range []string{"show port stats 0", "show port xstats 0", "show fwd stats all", "show port info 0", "clear port stats 0", "clear fwd stats all", "show rxq info 0 0"} {
		if out := b.run(line); strings.Contains(out, "panic") {
			t.Errorf("%s: %s", line, out)
		}
	}
}

// TestB18ViewsAgree sends what two queues hold and compares what the port, its
// queues, the streams and forwarding as a whole counted.
func TestB18ViewsAgree(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) { twoQueues(c); c.Options.FlushRx = false })
	b.run("start tx_first 2")
	waitPackets(t, b, 500)
	out := b.run("stop")
	var streams, port, sum uint64
	for _, m := range regexp.MustCompile(`(-|\+)\n  RX-packets: (\d+)`).FindAllStringSubmatch(out, -1) {
		var n uint64
		fmt.Sscan(m[2], &n)
		if m[1] == "+" {
			sum += n
		}
	}
	for _, m := range regexp.MustCompile(`Queue= \d -------\n  RX-packets: (\d+)`).FindAllStringSubmatch(out, -1) {
		var n uint64
		fmt.Sscan(m[1], &n)
		streams += n
	}
	if m := regexp.MustCompile(`for port 0 .*\n  RX-packets: (\d+)`).FindStringSubmatch(out); m != nil {
		fmt.Sscan(m[1], &port)
	}
	stats := b.ports[0].Stats()
	if streams != port || port != sum || sum != stats.RxPackets {
		t.Errorf("streams %d, port %d, all %d, driver %d in\n%s", streams, port, sum, stats.RxPackets, out)
	}
}

func TestXstatsHideZero(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> set xstats-hide-zero on
testpmd> show port xstats 0
###### NIC extended statistics for port 0 
testpmd> set xstats-hide-zero foo
Bad arguments
testpmd> set xstats-hide-zero off
`)
	if out := b.run("show port xstats all"); !strings.Contains(out, "rx_good_packets: 0\ntx_good_packets: 0\nrx_good_bytes: 0\n") {
		t.Errorf("%s", out)
	}
}
