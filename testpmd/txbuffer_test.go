package testpmd

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vionet/mbuf"
)

func TestTxBufferDialogue(t *testing.T) {
	b := startedBench(t, 2, nil)
	b.fakes[1].info.TxDesc = 128
	b.check(t, `testpmd> show txbuffer
TX buffer: off
testpmd> set txbuffer 32
TX buffer: 32 packets, drain 0us, retries 0
testpmd> set txbuffer 64 retries 8
TX buffer: 64 packets, drain 0us, retries 8
testpmd> set txbuffer 0
txbuffer 0 invalid - must be >= 1 && <= 32768, or off
testpmd> set txbuffer 129
txbuffer 129 invalid - must be <= 128 (number of TXDs of port 1)
testpmd> set txbuffer 128 drain 0 retries 3
TX buffer: 128 packets, drain 0us, retries 3
testpmd> set txbuffer 16 drain 1000001
txbuffer drain: 1000001 > 1000000 (maximum microseconds)  ignored
testpmd> set txbuffer 16 drain 5 retries 1001
txbuffer retries: 1001 > 1000 (maximum number of retries)  ignored
testpmd> set txbuffer 16 drain
Bad arguments
testpmd> set txbuffer 16 retries 5 drain
Bad arguments
testpmd> set txbuffer 16 drain 5 drain 5
Bad arguments
testpmd> set txbuffer 16 drain 5 retries -1
Bad arguments
testpmd> set txbuffer 16 retries 9 drain 7
TX buffer: 16 packets, drain 7us, retries 9
testpmd> set txbuffer 128 retries 3 drain 0
TX buffer: 128 packets, drain 0us, retries 3
testpmd> set txbuffer off drain 5
Bad arguments
testpmd> set txbuffer on
Bad arguments
testpmd> set txbuffer
Bad arguments
testpmd> show txbuffer
TX buffer: 128 packets, drain 0us, retries 3
testpmd> show config fwd
io packet forwarding - ports=2 - cores=1 - streams=2 - NUMA support enabled, MP allocation mode: native
TX buffer: 128 packets, drain 0us, retries 3
Logical Core 1 (socket 0) forwards packets on 2 streams:
  RX P=0/Q=0 (socket 0) -> TX P=1/Q=0 (socket 0) peer=02:00:00:00:00:01
  RX P=1/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00

testpmd> show txbuffer json
{"tx_buffer":{"size":128,"drain_us":0,"retries":3},"queues":[]}
testpmd> set txbuffer off
TX buffer: off
testpmd> show txbuffer json
{"tx_buffer":null,"queues":[]}
`)
	for line, want := range map[string][]string{
		"set txb":                   {"set txbuffer "},
		"set txbuffer ":             {"set txbuffer off "},
		"set txbuffer 8 ":           {"set txbuffer 8 drain ", "set txbuffer 8 retries "},
		"set txbuffer 8 drain 5":    nil,
		"set txbuffer 8 drain 5 ":   {"set txbuffer 8 drain 5 retries "},
		"set txbuffer 8 retries 5 ": {"set txbuffer 8 retries 5 drain "},
		"show txb":                  {"show txbuffer "},
		"set flowgen ":              {"set flowgen flows "},
		"set fwd flo":               {"set fwd flowgen ", "set fwd flowbatch "},
	} {
		if diff := cmp.Diff(want, b.complete(line)); diff != "" {
			t.Errorf("%q completes (-want +got)\n%s", line, diff)
		}
	}
}

// The ring may have become smaller than the buffer since that was set.
func TestTxBufferMustFitTheRingAtStart(t *testing.T) {
	b := startedBench(t, 2, nil)
	b.run("set txbuffer 64")
	b.fakes[1].info.TxDesc = 32
	want := "Port 1: transmit buffer: invalid argument: size 64: must be 1 to 32 packets, as many as the queue has descriptors: see set txbuffer\n"
	if got := b.run("start"); got != want || b.fwd != nil {
		t.Errorf("%q", got)
	}
	b.run("set txbuffer 32")
	if got := b.run("start", "stop"); !strings.HasSuffix(got, "\nDone.\n") {
		t.Errorf("%q", got)
	}
	b.run("port stop all")
}

// inPorts is the number of packets that the fake ports hold.
func (b *bench) inPorts() (n int) {
	for _, p := range b.fakes {
		for _, q := range p.queues {
			q.mu.Lock()
			n += len(q.inside)
			q.mu.Unlock()
		}
	}
	return n
}

// Three packets go round between two ports, each time through a buffer that they
// never fill: time alone sends them, and the stop leaves none behind.
func TestWaitingPacketsAreSentInTimeAndAtTheStop(t *testing.T) {
	for _, mode := range []string{"io", "flowbatch"} {
		b := startedBench(t, 2, func(c *Config) { c.Options.FlushRx = false })
		var pkts []*mbuf.Buf
		for range 3 {
			pkts = append(pkts, b.pool.Get())
		}
		b.fakes[0].TxQueue(0).Burst(pkts)
		b.run("set fwd "+mode, "set txbuffer 32 drain 50", "start")
		eventually(t, "packets move", func() bool { return b.fwd.streams[0].TxPackets.Load() > 100 })
		s := b.fwd.streams[0]
		out := b.run("stop")
		stats, _ := s.Buffered()
		if stats.Full != 0 || stats.Late < 30 || stats.Packets != s.TxPackets.Load() {
			t.Errorf("%s: counted %+v", mode, stats)
		}
		if !strings.Contains(out, fmt.Sprintf("TX-packets: %-14d TX-dropped: 0 ", s.TxPackets.Load())) {
			t.Errorf("%s: %s", mode, out)
		}
		if strings.Contains(out, "Batches: ") != (mode == "flowbatch") {
			t.Errorf("%s: %s", mode, out)
		}
		if n := b.inPorts(); n != 3 || b.pool.Free() != b.pool.Size()-3 {
			t.Errorf("%s: %d packets in ports and %d of %d in the pool", mode, n, b.pool.Free(), b.pool.Size())
		}
		// What was counted is still shown.
		row := fmt.Sprintf(`\n  TX Port= 1/Queue= 0: flushes: %d \(0 full, %d drained, %d asked\) packets: %d packets/flush: [123]\.\d dropped: 0 retries: 0\n`,
			stats.Flushes(), stats.Late, stats.Asked, stats.Packets)
		if text := b.run("show txbuffer"); !regexp.MustCompile(row).MatchString(text) {
			t.Errorf("%s: %s does not match in\n%s", mode, row, text)
		}
		queues := object(t, "show txbuffer", b.run("show txbuffer json"))["queues"].([]any)
		if q := queues[0].(map[string]any); len(queues) != 2 || q["port_id"] != 1.0 || q["packets"] != float64(stats.Packets) || q["flushes_drained"] != float64(stats.Late) {
			t.Errorf("%s: %v", mode, queues)
		}
		b.run("clear fwd stats all", "port stop all")
	}
}

// What a port does not take from the buffer counts as dropped.
func TestWhatDoesNotFitIsDroppedFromTheBuffer(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.run("set fwd txonly", "set txbuffer 48 retries 2", "start")
	eventually(t, "the port is full", func() bool { return b.fwd.streams[0].TxDropped.Load() > 1000 })
	s := b.fwd.streams[0]
	b.run("stop")
	stats, _ := s.Buffered()
	if s.TxPackets.Load() != fakeRing || stats.Packets != fakeRing || stats.Dropped != s.TxDropped.Load() || stats.Retries < 2*(stats.Dropped/48-1) {
		t.Errorf("sent %d, dropped %d; counted %+v", s.TxPackets.Load(), s.TxDropped.Load(), stats)
	}
	if n := b.inPorts(); b.pool.Free()+n != b.pool.Size() {
		t.Errorf("%d packets in ports and %d of %d in the pool", n, b.pool.Free(), b.pool.Size())
	}
	b.run("port stop all")
}

func TestClearForgetsWhatWaited(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.run("set fwd txonly", "set txbuffer 32", "start")
	eventually(t, "packets move", func() bool { return b.fwd.streams[0].TxDropped.Load() > 0 })
	if err := b.fwd.halt(stopLimit); err != nil {
		t.Fatal(err)
	}
	b.run("clear fwd stats all")
	if stats, ok := b.fwd.streams[0].Buffered(); !ok || stats.Flushes()+stats.Packets+stats.Dropped != 0 {
		t.Errorf("%+v", stats)
	}
	b.run("stop", "port stop all")
}

func TestFlowsOfFlowgen(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> set flowgen flows 10
Number of flows of mode flowgen set to 10
testpmd> set flowgen flows 0
flowgen flows 0 invalid - must be >= 1 && <= 1048576
testpmd> set flowgen flows 1048577
flowgen flows 1048577 invalid - must be >= 1 && <= 1048576
testpmd> set flowgen flows x
Bad arguments
testpmd> set fwd flowgen
Set flowgen packet forwarding mode
`)
	if out := b.run("show config rxtx"); !strings.Contains(out, "\n  nb flows=10 - nb clones=0\n") {
		t.Errorf("%s", out)
	}
	b.run("start")
	if n := b.fwd.streams[0].Flows; n != 10 {
		t.Errorf("the stream has %d flows", n)
	}
	b.run("stop", "port stop all")
}
