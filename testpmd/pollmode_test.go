package testpmd

import (
	"strings"
	"testing"
	"time"

	"vionet/driver"
	"vionet/driver/fakedev"
	"vionet/testpmd/engine"
	"vionet/virtio"
)

func TestPollModeCommands(t *testing.T) {
	b := startedBench(t, 2, nil)
	b.check(t, `testpmd> set poll-mode adaptive
Set poll-mode adaptive, spin 50us
Port 0 was started without interrupts: stop it and start it again, or it is polled
Port 1 was started without interrupts: stop it and start it again, or it is polled
testpmd> port stop 1
Stopping ports...
Checking link statuses...
Done
testpmd> set poll-mode adaptive spin 200
Set poll-mode adaptive, spin 200us
Port 0 was started without interrupts: stop it and start it again, or it is polled
testpmd> set poll-mode adaptive spin 1000001
spin: 1000001 > 1000000 (maximum microseconds)  ignored
testpmd> set poll-mode adaptive spin -1
Bad arguments
testpmd> set poll-mode lazy
Bad arguments
testpmd> set poll-mode busy
Set poll-mode busy
testpmd> show config fwd json
{"mode":"io","retry":null,"tx_buffer":null,"poll":{"mode":"busy","spin_us":200},"nb_ports":2,"cores":[{"lcore":1,"streams":[{"rx_port":0,"rx_queue":0,"tx_port":1,"tx_queue":0,"peer":"02:00:00:00:00:01"},{"rx_port":1,"rx_queue":0,"tx_port":0,"tx_queue":0,"peer":"02:00:00:00:00:00"}]}]}
testpmd> set poll-mode interrupt
Set poll-mode interrupt
Port 0 was started without interrupts: stop it and start it again, or it is polled
testpmd> show config fwd
io packet forwarding - ports=2 - cores=1 - streams=2 - NUMA support enabled, MP allocation mode: native
poll mode: interrupt
Logical Core 1 (socket 0) forwards packets on 2 streams:
  RX P=0/Q=0 (socket 0) -> TX P=1/Q=0 (socket 0) peer=02:00:00:00:00:01
  RX P=1/Q=0 (socket 0) -> TX P=0/Q=0 (socket 0) peer=02:00:00:00:00:00

`)
}

// TestPollModeFallsBack forwards over ports that cannot be slept on, and says so.
func TestPollModeFallsBack(t *testing.T) {
	b := startedBench(t, 2, func(c *Config) { c.Options.FlushRx = false })
	b.run("set poll-mode adaptive")
	for _, want := range []string{
		"lcore 1 polls all the time, in spite of poll-mode adaptive: port 0 was started without interrupts: stop it and start it again\n",
		"lcore 1 polls all the time, in spite of poll-mode adaptive: port 0 (net_virtio_user0): sleep on a queue: operation not supported: it can only be polled\n",
	} {
		if out := b.run("start tx_first"); strings.Count(out, want) != 1 {
			t.Errorf("start says\n%s, want once\n%s", out, want)
		}
		eventually(t, "forwarding", func() bool { return b.fwd.streams[0].RxPackets.Load() > 1000 })
		b.run("stop", "port stop all", "port start all")
	}
	if !b.fakes[0].conf.RxInterrupts || !b.fakes[0].conf.TxInterrupts {
		t.Error("the port was configured without interrupts")
	}
}

// sleepyBench forwards on one port of the virtio driver, whose device is the
// test's, in a mode in which cores sleep.
func sleepyBench(t *testing.T, poll PollMode, start string, change func(*Options)) (*bench, *fakedev.Device) {
	t.Helper()
	dev := fakedev.New(fakedev.Config{Offered: fakedev.DefaultFeatures | virtio.EventIdx, QueueSize: 64})
	b := newBench(t, 1, func(c *Config) {
		c.Options.PollMode, c.Options.FlushRx, c.Options.Spin = poll, false, time.Millisecond
		if change != nil {
			change(&c.Options)
		}
		p, err := driver.Open(dev, driver.Options{EventIdx: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Ports[0] = p
	})
	t.Cleanup(func() {
		b.run("stop", "port stop 0", "port close 0")
		if b.pool.Free() != b.pool.Size() {
			t.Errorf("%d of %d buffers are back", b.pool.Free(), b.pool.Size())
		}
	})
	if out := b.run("port start 0", start); b.fwd == nil || strings.Contains(out, "polls all the time") {
		t.Fatalf("%s", out)
	}
	return b, dev
}

// sent reports whether the device got n more frames.
func sent(t *testing.T, dev *fakedev.Device, n int) bool {
	frames, err := dev.Sent(0)
	if err != nil {
		t.Fatal(err)
	}
	return len(frames) == n
}

func TestSleepingCoreForwards(t *testing.T) {
	for _, poll := range []PollMode{PollAdaptive, PollInterrupt} {
		t.Run(string(poll), func(t *testing.T) {
			_, dev := sleepyBench(t, poll, "start", nil)
			for range 5 {
				time.Sleep(3 * time.Millisecond) // longer than the spin
				if err := dev.Deliver(0, virtio.NetHeader{}, make([]byte, 64)); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the frame is sent", func() bool { return sent(t, dev, 1) })
			}
			// stop, in the clean-up, ends the sleep; it fails after five seconds.
		})
	}
}

// TestHeldPacketsAreNotSleptOver has mode noisy hold a packet for 20 ms, with
// nothing that would wake the core.
func TestHeldPacketsAreNotSleptOver(t *testing.T) {
	_, dev := sleepyBench(t, PollInterrupt, "start", func(o *Options) {
		o.Mode, o.Noise = engine.Noisy.Name, engine.Noise{Hold: 8, Flush: 20 * time.Millisecond}
	})
	if err := dev.Deliver(0, virtio.NetHeader{}, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the held packet is sent", func() bool { return sent(t, dev, 1) })
}

// TestSenderSleepsForRoom has modes that make packets fill the ring and sleep,
// until the device has sent half of it.
func TestSenderSleepsForRoom(t *testing.T) {
	for _, mode := range []string{"txonly", "flowgen"} {
		for _, poll := range []PollMode{PollAdaptive, PollInterrupt} {
			t.Run(mode+"/"+string(poll), func(t *testing.T) {
				b, dev := sleepyBench(t, poll, "start", func(o *Options) { o.Mode = mode })
				s := b.fwd.streams[0]
				for round := range 3 {
					before := s.TxDropped.Load()
					eventually(t, "the sender sleeps", func() bool {
						last := before
						before = s.TxDropped.Load() + s.TxPackets.Load()
						return before == last && before > 0
					})
					done := s.TxPackets.Load()
					// The sender may wake before the device is through the ring.
					if frames, err := dev.Sent(0); err != nil || len(frames) < 64 {
						t.Fatalf("round %d: the device finds %d packets: %v", round, len(frames), err)
					}
					eventually(t, "the sender wakes", func() bool { return s.TxPackets.Load() >= done+64 })
				}
			})
		}
	}
}
