package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"vionet/driver"
	"vionet/port"
)

// buffered is a rig whose packets wait.
func buffered(t testing.TB, cfg StreamConfig, wait driver.TxBufferConfig, frames ...[]byte) *rig {
	t.Helper()
	r := newRig(t, cfg, frames...)
	if err := r.Buffer(wait); err != nil {
		t.Fatal(err)
	}
	r.UseCache(r.cache)
	return r
}

// checkCounts compares the counters with what is right.
func (r *rig) checkCounts(t *testing.T, when string, waiting int, sent, dropped uint64) {
	t.Helper()
	if r.Waiting() != waiting || r.TxPackets.Load() != sent || r.TxDropped.Load() != dropped {
		t.Errorf("%s: %d wait, %d sent, %d dropped; want %d, %d and %d", when, r.Waiting(), r.TxPackets.Load(), r.TxDropped.Load(), waiting, sent, dropped)
	}
}

func TestWaitingPacketsCountWhenTheyGo(t *testing.T) {
	const drain = time.Millisecond
	r := buffered(t, StreamConfig{}, driver.TxBufferConfig{Size: 16, Drain: drain, Retries: 2}, numbered(20)...)
	r.rx.frames = r.rx.frames[:10]
	IO.Forward(r.Stream)
	r.checkCounts(t, "after a small burst", 10, 0, 0)
	if n := r.Poll(0) + r.Poll(drain-1); n != 0 {
		t.Errorf("%d went too early", n)
	}
	if n := r.Poll(drain); n != 10 {
		t.Errorf("%d of 10 went in time", n)
	}
	r.checkCounts(t, "in time", 0, 10, 0)

	r.rx.frames = numbered(40)[20:]
	IO.Forward(r.Stream)
	r.checkCounts(t, "after a burst past the buffer", 0, 30, 0)

	r.rx.frames = numbered(50)[40:]
	IO.Forward(r.Stream)
	r.tx.room = 7
	r.Finish()
	r.checkCounts(t, "at the end", 0, 37, 3)
	want := slices.Concat(count(0, 10), count(20, 47))
	if got := numbers(r.tx.sent); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	stats, ok := r.Buffered()
	if want := (driver.TxBufferStats{Full: 1, Late: 1, Asked: 1, Packets: 37, Dropped: 3, Retries: 2}); stats != want || !ok {
		t.Errorf("counted %+v, want %+v", stats, want)
	}
	r.Reset()
	if stats, _ := r.Buffered(); stats != (driver.TxBufferStats{}) {
		t.Errorf("Reset leaves %+v", stats)
	}
	r.accounted(t)
}

// count gives the numbers from first up to, and without, end.
func count(first, end int) (list []int) {
	for ; first < end; first++ {
		list = append(list, first)
	}
	return list
}

func TestEveryModeSendsThroughABuffer(t *testing.T) {
	for _, e := range All {
		for _, room := range []int{1 << 30, 100} {
			r := buffered(t, StreamConfig{Burst: 8, Noise: Noise{Hold: 5}}, driver.TxBufferConfig{Size: 20})
			r.tx.room = room
			r.Rx = &flood{payload: tcpFrame(t, 100)}
			r.UseCache(r.cache)
			for range 50 {
				e.Forward(r.Stream)
			}
			before := r.tx.reclaimed
			if r.Tx.Reclaim(); r.tx.reclaimed != before+1 {
				t.Errorf("%s: Reclaim does not reach the queue", e.Name)
			}
			r.Finish()
			if r.Waiting() != 0 || r.TxPackets.Load() != uint64(len(r.tx.sent)) {
				t.Errorf("%s: %d wait, counted %d, sent %d", e.Name, r.Waiting(), r.TxPackets.Load(), len(r.tx.sent))
			}
			if sends := e != RxOnly && e != SharedRxq && e != ICMPEcho; sends && (r.tx.longest < 20 || room == 100 && r.TxDropped.Load() == 0) {
				t.Errorf("%s: the longest burst has %d packets, %d dropped", e.Name, r.tx.longest, r.TxDropped.Load())
			}
			r.accounted(t)
		}
	}
}

func TestNothingAllocatesWithABuffer(t *testing.T) {
	for _, e := range All {
		r := buffered(t, StreamConfig{}, driver.TxBufferConfig{Size: 48})
		r.tx.quiet = true
		r.Rx = &flood{payload: tcpFrame(t, 100)}
		r.UseCache(r.cache)
		if n := testing.AllocsPerRun(100, func() {
			e.Forward(r.Stream)
			if r.Waiting() > 0 {
				r.Poll(0)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a burst", e.Name, n)
		}
		r.accounted(t)
	}
}

// A stream is stalled until its packets go again, or wait at least.
func TestStalledBehindABuffer(t *testing.T) {
	r := buffered(t, StreamConfig{Burst: 8}, driver.TxBufferConfig{Size: 8}, numbered(20)...)
	for i, step := range []struct {
		room    int
		stalled bool
	}{{8, false}, {3, true}, {0, false}} {
		r.tx.room = step.room
		IO.Forward(r.Stream)
		if r.Stalled() != step.stalled {
			t.Errorf("burst %d: stalled %v", i, r.Stalled())
		}
	}
	r.Finish()
	if !r.Stalled() {
		t.Error("what waited did not go, and the stream is not stalled")
	}
	r.accounted(t)
}

func TestBufferLargerThanTheRingIsRefused(t *testing.T) {
	r := newRig(t, StreamConfig{})
	if err := r.Buffer(driver.TxBufferConfig{Size: 300, Desc: 256}); !errors.Is(err, port.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if _, ok := r.Buffered(); ok || r.Waiting() != 0 {
		t.Error("there is a buffer all the same")
	}
}
