package testpmd

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"vionet/mbuf"
	"vionet/port"
)

func TestMain(m *testing.M) {
	// Two cores that forward without a pause must leave a place for the test.
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	goleak.VerifyTestMain(m)
}

func TestTopology(t *testing.T) {
	for _, tt := range []struct {
		topology Topology
		want     []int // the Tx port of each of five
	}{
		{Paired, []int{1, 0, 3, 2, 4}},
		{Chained, []int{1, 2, 3, 4, 0}},
		{Loop, []int{0, 1, 2, 3, 4}},
	} {
		var got []int
		for i := range 5 {
			got = append(got, tt.topology.next(i, 5))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.topology, diff)
		}
	}
}

func TestShare(t *testing.T) {
	list := []int{0, 1, 2, 3, 4, 5, 6, 7}
	var got [][]int
	for k := range 3 {
		got = append(got, share(list, k, 3))
	}
	if diff := cmp.Diff([][]int{{0, 1}, {2, 3, 4}, {5, 6, 7}}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// eventually waits for what other goroutines bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s: does not come about", what)
}

func TestForwardingAccountsForEveryBuffer(t *testing.T) {
	for _, mode := range modeNames() {
		b := startedBench(t, 2, func(c *Config) {
			c.Options.RxQueues, c.Options.TxQueues, c.Options.NbCores = 2, 2, 2
			c.Options.FlushRx = false
		})
		for round := range 3 {
			b.run("set fwd "+mode, "start tx_first 2")
			eventually(t, mode, func() bool {
				for _, s := range b.fwd.streams {
					if s.TxPackets.Load()+s.TxDropped.Load() < 64 {
						return false
					}
				}
				return true
			})
			if out := b.run("show fwd stats all"); strings.Count(out, "Forward Stats for RX Port=") != 4 {
				t.Errorf("%s: %s", mode, out)
			}
			if out := b.run("stop"); !strings.HasSuffix(out, "\nDone.\n") {
				t.Fatalf("%s: %s", mode, out)
			}
			inside := 0
			for _, p := range b.fakes {
				for _, q := range p.queues {
					inside += len(q.inside)
				}
			}
			if b.pool.Free()+inside != b.pool.Size() {
				t.Errorf("%s, round %d: %d free and %d in ports of %d", mode, round, b.pool.Free(), inside, b.pool.Size())
			}
		}
		b.run("port stop all")
		if b.pool.Free() != b.pool.Size() {
			t.Errorf("%s: %d of %d buffers are back", mode, b.pool.Free(), b.pool.Size())
		}
	}
}

func TestStartFlushesWhatCameBefore(t *testing.T) {
	b := startedBench(t, 1, nil)
	old := b.pool.Get()
	b.fakes[0].TxQueue(0).Burst([]*mbuf.Buf{old})
	b.run("start")
	if n := b.fwd.streams[0].RxPackets.Load(); n != 0 || b.fakes[0].Stats().RxPackets != 1 {
		t.Errorf("forwarded %d", n)
	}
	b.run("stop", "set flush_rx off")
	b.fakes[0].TxQueue(0).Burst([]*mbuf.Buf{b.pool.Get()})
	b.run("start")
	eventually(t, "forwarding without a flush", func() bool { return b.fwd.streams[0].RxPackets.Load() > 0 })
	b.run("stop")
}

func TestForwardStats(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) { c.Options.Mode, c.Options.FlushRx = "rxonly", false })
	b.fakes[0].missed = 3
	b.run("start")
	b.fakes[0].mu.Lock()
	b.fakes[0].missed = 8
	b.fakes[0].mu.Unlock()
	if got := b.run("show fwd stats all"); !strings.Contains(got, "  RX-packets: 0              RX-dropped: 5             RX-total: 5\n") {
		t.Errorf("%s", got)
	}
	b.run("clear fwd stats all")
	want := `Telling cores to stop...
Waiting for lcores to finish...

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 0              RX-dropped: 0             RX-total: 0
  TX-packets: 0              TX-dropped: 0             TX-total: 0
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 0              RX-dropped: 0             RX-total: 0
  TX-packets: 0              TX-dropped: 0             TX-total: 0
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

Done.
`
	if diff := cmp.Diff(want, b.run("stop")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCsumModeShowsItsLines(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) { c.Options.Mode = "csum" })
	b.run("start")
	want := "  Bad-ipcsum: 0              Bad-l4csum: 0             Bad-outer-l4csum: 0             \n  Bad-outer-ipcsum: 0             \n"
	if got := b.run("stop"); !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
}

func TestTxOnlyShowsItsSegments(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.run("set fwd txonly", "set txpkts 64,64")
	if got := b.run("start", "stop"); !strings.Contains(got, "  packet len=128 - nb packet segments=2\n") {
		t.Errorf("%s", got)
	}
	b.run("port stop 0")
}

func TestTSOReachesTheStreams(t *testing.T) {
	b := newBench(t, 1, nil)
	b.run("csum set tcp hw 0", "tso set 1400 0", "csum mac-swap off 0", "set eth-peer 0 02:00:00:00:00:09", "port start 0", "start")
	s := b.fwd.streams[0]
	if s.TSOSize != 1400 || s.TxOffloads != port.TxTCPCksum|port.TxTCPTSO || !s.KeepMACs || s.Peer[5] != 9 || [6]byte(b.fakes[0].mac) != s.Source {
		t.Errorf("%+v", s.StreamConfig)
	}
	b.run("stop")
}

func TestLinkEvent(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.fakes[0].notify(port.LinkChange)
	if got := b.out.take(); got != "\nPort 0: link state change event\n" {
		t.Errorf("%q", got)
	}
	b.setPrompting(true)
	b.fakes[0].notify(port.NeedsReset)
	if got := b.out.take(); got != "\nPort 0: reset event\n"+Prompt {
		t.Errorf("%q", got)
	}
	b.Options.MuteLink = true
	b.fakes[0].notify(port.LinkChange)
	if got := b.out.take(); got != "" {
		t.Errorf("%q", got)
	}
}

func TestPortThatDoesNotStart(t *testing.T) {
	b := newBench(t, 1, nil)
	b.fakes[0].startErr = errors.New("the device did not accept the features")
	want := "Configuring Port 0 (socket 0)\nFail to start port 0: the device did not accept the features\n"
	if got := b.run("port start 0"); got != want {
		t.Errorf("%q", got)
	}
	b.fakes[0].startErr = nil
	if got := b.run("port start 0"); !strings.HasSuffix(got, "Checking link statuses...\nDone\n") || strings.Contains(got, "Configuring") {
		t.Errorf("%q", got)
	}
}

func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`forwarding mode "x": must be one of`: func(c *Config) { c.Options.Mode = "x" },
		"no cores for forwarding":             func(c *Config) { c.Cores = nil },
		"nb-cores 3: must be >= 1 && <= 2":    func(c *Config) { c.Options.NbCores = 3 },
	} {
		cfg := Config{Cores: []Core{{ID: 1}, {ID: 2}}, Options: DefaultOptions()}
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
