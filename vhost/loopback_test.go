package vhost

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/virtio"
)

// handRig is a device whose bursts the test calls itself.
func handRig(tb testing.TB, features virtio.Features) (*rig, *loopPair) {
	tb.Helper()
	b := newTestBackend(tb, BackendConfig{})
	sock, err := b.connect(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	cfg := FrontendConfig{QueueSize: rigSize}
	cfg.setDefaults()
	f, err := newFrontend(sock, nil, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	r := newRig(tb, f, 1)
	r.start(features, 1)
	return r, &loopPair{rx: b.RxQueue(0), tx: b.TxQueue(0)}
}

// offer makes n frames of size bytes available.
func (r *rig) offer(n, size int) {
	p := &r.pairs[0]
	for range n {
		p.tx.add(p.txBufs[p.tx.nextHead()].IOVA, uint32(r.header+size), 0)
	}
	r.kickTx(0)
}

// collect takes what was returned and gives the buffers back.
func (r *rig) collect() int {
	p := &r.pairs[0]
	p.tx.harvest(p.done[:])
	n := p.rx.harvest(p.done[:])
	r.refill(0, rigSize)
	return n
}

func TestNoAllocations(t *testing.T) {
	for _, tt := range []struct {
		name     string
		features virtio.Features
	}{
		{"plain", plain}, {"mergeable", plain | virtio.NetMrgRxbuf},
	} {
		r, p := handRig(t, tt.features)
		out := make([]Frame, 32)
		for i := range out {
			out[i].Data = make([]byte, 0, 2048)
		}
		for what, burst := range map[string]func(){
			"loopback": func() { p.bounce() },
			"queues":   func() { p.rx.Enqueue(out[:p.tx.Dequeue(out)]) },
		} {
			allocs := testing.AllocsPerRun(200, func() {
				r.offer(32, 200)
				burst()
				if n := r.collect(); n != 32 {
					t.Fatalf("%d frames of 32", n)
				}
			})
			if allocs != 0 {
				t.Errorf("%s, %s: %v allocations a burst", tt.name, what, allocs)
			}
		}
		kick := r.pairs[0].txKick
		if allocs := testing.AllocsPerRun(100, func() { kick.Kick(0) }); allocs != 0 {
			t.Errorf("%v allocations a kick", allocs)
		}
	}
}

// A transmit queue that is broken is no reason to stay awake.
func TestB23LoopbackLeavesBrokenQueue(t *testing.T) {
	r, p := handRig(t, plain)
	for range 3 {
		r.pairs[0].tx.add(1, 100, 0)
	}
	r.kickTx(0)
	p.bounce()
	if p.tx.Err() == nil || p.bounce() {
		t.Errorf("the device goes on with a queue that is broken: %v", p.tx.Err())
	}
}

// An idle device sleeps: it uses next to none of the processor.
func TestLoopbackSleeps(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{})
	r.start(plain, 1)
	r.send(0, virtio.NetHeader{}, frameOf(0, 60))
	r.receive(0)
	time.Sleep(50 * time.Millisecond)
	before, start := cpuTime(t), time.Now()
	time.Sleep(300 * time.Millisecond)
	if used, passed := cpuTime(t)-before, time.Since(start); used > passed/5 {
		t.Errorf("%v of processor time in %v without a frame", used, passed)
	}
	// Asleep, it still hears every kick.
	for i := range 20 {
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		r.send(0, virtio.NetHeader{}, frameOf(i, 60))
		r.receive(0)
	}
}

// The last frame before a sleep is never forgotten: frames come one at a time,
// each at another moment of the device's falling asleep.
func TestB19LoopbackHearsEveryKick(t *testing.T) {
	r, _ := loopRig(t, LoopbackConfig{})
	r.start(plain, 1)
	for i := range 3000 {
		for end := time.Now().Add(time.Duration(i%300) * time.Microsecond); time.Now().Before(end); {
		}
		r.send(0, virtio.NetHeader{}, frameOf(i, 60))
		r.receive(0)
	}
}

func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLoopback is the device's work on a frame: take it, copy it to a
// receive buffer, complete both.
func BenchmarkLoopback(b *testing.B) {
	for _, bb := range []struct {
		name     string
		features virtio.Features
		size     int
	}{
		{"plain/64", plain, 64},
		{"plain/1514", plain, 1514},
		{"mergeable/64", plain | virtio.NetMrgRxbuf, 64},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r, p := handRig(b, bb.features)
			b.SetBytes(int64(bb.size))
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += 32 {
				r.offer(32, bb.size)
				p.bounce()
				r.collect()
			}
		})
	}
}

// BenchmarkRoundTrip is a driver and the device, each on its own: frames there
// and back.
func BenchmarkRoundTrip(b *testing.B) {
	r, _ := loopRig(b, LoopbackConfig{})
	r.start(plain, 1)
	b.ReportAllocs()
	b.ResetTimer()
	r.offer(32, 64)
	for n := 0; n < b.N; {
		got := r.collect()
		if got > 0 {
			r.offer(got, 64)
		}
		n += got
	}
}
