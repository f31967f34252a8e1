package testpmd

import (
	"fmt"
	"strings"
	"testing"
)

func TestQueueStartAndStop(t *testing.T) {
	b := startedBench(t, 1, twoQueues)
	b.check(t, `testpmd> port 0 rxq 0 start
Queue 0 of device with port_id=0 already started
testpmd> port 0 rxq 1 stop
testpmd> port 0 rxq 1 stop
Queue 1 of device with port_id=0 already stopped
testpmd> port 0 txq 9 stop
Invalid TX queue 9 (must be < nb_txq=2)
testpmd> port 9 rxq 0 stop
Invalid port 9
testpmd> port 0 rxq 0 deferred_start on
Please stop port 0 first
`)
	if out := b.run("show rxq info 0 1"); !strings.Contains(out, "\nRx queue state: stopped\n") {
		t.Errorf("%s", out)
	}
	b.run("start tx_first 3")
	b.check(t, `testpmd> port 0 rxq 1 start
Please stop forwarding first
`)
	b.run("stop")
	if q := b.fakes[0].queues; q[0].tx == 0 || q[1].tx != 0 || q[1].rx != 0 {
		t.Errorf("queue 0 sent %d; queue 1, which was stopped, sent %d and received %d", q[0].tx, q[1].tx, q[1].rx)
	}
	// A stopped transmit queue closes the way too, but not for mode rxonly.
	b.run("port 0 rxq 1 start", "port 0 txq 1 stop", "start tx_first", "stop")
	if q := b.fakes[0].queues; q[1].tx != 0 {
		t.Errorf("a stopped queue sent %d packets", q[1].tx)
	}
	for mode, want := range map[string]bool{"rxonly": false, "txonly": true, "io": true} {
		b.run("set fwd " + mode)
		if got := b.idle(link{rxQueue: 1, txQueue: 1}); got != want {
			t.Errorf("mode %s without its transmit queue: idle %t", mode, got)
		}
	}
	b.run("port 0 txq 1 start", "port stop 0")
	b.check(t, `testpmd> port 0 rxq 0 start
Please start port 0 first
testpmd> port 0 rxq 0 deferred_start on
`)
	b.run("port start 0")
	if q := b.ports[0]; !q.rxQueues[0].stopped || q.rxQueues[1].stopped || q.txQueues[0].stopped {
		t.Errorf("after a deferred start: rx %v, tx %v", q.rxQueues, q.txQueues)
	}
}

func TestQueueInfo(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) {
		c.Options.RxThresholds = Thresholds{Free: 16, WriteBack: 4}
		c.Options.TxThresholds = Thresholds{Free: 32, RS: 8, Prefetch: 3}
	})
	b.fakes[0].info.RxDesc, b.fakes[0].info.TxDesc = 256, 512
	b.check(t, `testpmd> show rxq info 0 0

********************* Infos for port 0 , RX queue 0  *********************
Mempool: mb_pool_0
RX prefetch threshold: 0
RX host threshold: 0
RX writeback threshold: 4
RX free threshold: 16
RX drop packets: off
RX deferred start: off
RX scattered packets: off
Rx queue state: started
RX buffer size: 2048
Number of RXDs: 256
Burst mode: Scalar mergeable
testpmd> show txq info 0 0

********************* Infos for port 0 , TX queue 0  *********************
TX prefetch threshold: 3
TX host threshold: 0
TX writeback threshold: 0
TX RS threshold: 8
TX free threshold: 32
TX deferred start: off
Number of TXDs: 512
Tx queue state: started
Burst mode: Scalar simple
testpmd> show txq info 0 9
Invalid Tx queue_id=9
Failed to retrieve information for port: 0, TX queue: 9
error desc: Invalid argument(-22)
testpmd> show rxq info 9 0
Invalid port_id=9
Failed to retrieve information for port: 9, RX queue: 0
error desc: No such device(-19)
testpmd> show port 0 rxq 0 desc 0 status
Invalid input: queue id = 0, desc id = 0
testpmd> show port 9 txq 0 desc 0 status
invalid port id 9
testpmd> show port 0 rxq 0 desc used count
Invalid queueid = 0
`)
}

func TestRingSizes(t *testing.T) {
	b := startedBench(t, 1, twoQueues)
	b.fakes[0].calls = nil
	b.check(t, `testpmd> port config 0 rxq 0 ring_size 31
Fail: input rxd (31) can't be less than min_rxds (32) of port 0
testpmd> port config 0 rxq 9 ring_size 128
Invalid RX queue 9 (must be < nb_rxq=2)
testpmd> port config 9 rxq 0 ring_size 128
Invalid port 9
testpmd> port config 0 rxq 0 ring_size 128
testpmd> port 0 rxq 0 setup
rx queue 1 has ring_size 0 and queue 0 has 128: all queues of a port must have the same
Failed to setup RX queue
testpmd> port config 0 rxq 1 ring_size 128
testpmd> port 0 txq 9 setup
Invalid TX queue 9 (must be < nb_txq=2)
Invalid tx queue
testpmd> port 9 txq 0 setup
Invalid port 9
`)
	if len(b.fakes[0].calls) != 0 {
		t.Errorf("the port was asked to %v", b.fakes[0].calls)
	}
	b.run("port 0 rxq 1 stop", "port 0 rxq 0 setup")
	if got := fmt.Sprint(b.fakes[0].calls); got != "[stop configure start]" || b.fakes[0].conf.RxDesc != 128 {
		t.Errorf("set-up made the port %s with %d descriptors", got, b.fakes[0].conf.RxDesc)
	}
	if !b.ports[0].rxQueues[1].stopped {
		t.Error("a queue that was stopped before the set-up of another is started")
	}
	b.run("start")
	b.run("port config 0 rxq 0 ring_size 0", "port config 0 rxq 1 ring_size 0")
	b.check(t, `testpmd> port 0 rxq 0 setup
Please stop forwarding first
Failed to setup RX queue
`)
	b.run("stop")
}

func TestSettingsThatRestartAPort(t *testing.T) {
	b := startedBench(t, 1, nil)
	f := b.fakes[0]
	b.run("port config mtu 0 1400")
	if f.conf.MTU != 1400 || !b.ports[0].started {
		t.Errorf("MTU %d, started %t", f.conf.MTU, b.ports[0].started)
	}
	f.startErr = fmt.Errorf("no more power")
	if got := b.run("port config mtu 0 1300"); !strings.Contains(got, "no more power") || !strings.Contains(got, "Set MTU failed. diag=-5\n") {
		t.Errorf("%q", got)
	}
	if b.ports[0].started || b.ports[0].mtu != 1400 {
		t.Errorf("a port that did not start again: started %t, MTU %d", b.ports[0].started, b.ports[0].mtu)
	}
	f.startErr = nil
	b.run("port start 0", "start", "port config mtu 0 1200")
	if f.conf.MTU != 1400 {
		t.Errorf("a port that forwards has the MTU %d", f.conf.MTU)
	}
	b.run("stop", "port stop 0", "port start 0")
	if f.conf.MTU != 1200 {
		t.Errorf("after the next start the MTU is %d", f.conf.MTU)
	}
}

func TestCleanup(t *testing.T) {
	b := startedBench(t, 1, nil)
	b.check(t, `testpmd> port cleanup 0 txq 9 0
Invalid Tx queue_id=9
Failed to get port 0 Tx queue 9 info
testpmd> port cleanup 9 txq 0 0
Invalid port_id=9
Failed to get port 9 Tx queue 0 info
testpmd> port cleanup 0 txq 0 0
Cleanup port 0 Tx queue 0 mbuf nums: 0
testpmd> port 0 txq 0 stop
testpmd> port cleanup 0 txq 0 0
Tx queue 0 not started
`)
}
