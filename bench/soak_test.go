package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vionet/bench/peer"
	"vionet/bench/report"
)

func TestCollections(t *testing.T) {
	const log = `virtio: using simple Tx path on port 0
gc 1 @0.012s 2%: 0.018+0.51+0.003 ms clock, 0.018+0.1/0.2/0+0.003 ms cpu, 4->4->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 1 P
gc 12 @120.5s 0%: 0.20+12+0.31 ms clock, 0.20+0/0.9/0+0.31 ms cpu, 3->3->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)
`
	if got, want := collections(log), (stopped{count: 2, longest: 310 * time.Microsecond}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := collections(""); got.count != 0 {
		t.Errorf("%+v in nothing", got)
	}
}

func TestPauses(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct {
		took []time.Duration
		want int
	}{
		{nil, 0},
		{[]time.Duration{100 * us, 99 * us}, 0},
		{[]time.Duration{101 * us}, 1},
		{[]time.Duration{us, 500 * us, 300 * us, 101 * us, us, 200 * us}, 2},
	} {
		if got := pauses(tt.took); got != tt.want {
			t.Errorf("%d in %v, want %d", got, tt.took, tt.want)
		}
	}
}

// A trip keeps what came back over several runs, in a distribution that is right to
// three digits.
func TestTripLatency(t *testing.T) {
	trip := &trip{probe: &probe{Group: &peer.Group{}}}
	trip.begin(1000)
	for i := 1; i <= 10_000; i++ {
		trip.seen = append(trip.seen, time.Duration(i)*100)
	}
	for range 2 {
		if err := trip.add(10_003); err != nil {
			t.Fatal(err)
		}
	}
	l := trip.latency()
	for _, q := range []struct {
		name      string
		got, want time.Duration
	}{
		{"min", l.Min, 100}, {"median", l.Median, 500_000}, {"99 %", l.P99, 990_000},
		{"99.9 %", l.P999, 999_000}, {"99.99 %", l.P9999, 999_900}, {"max", l.Max, 1_000_000},
	} {
		if off := q.got - q.want; off > q.want/500 || off < -q.want/500 {
			t.Errorf("%s is %v, want %v", q.name, q.got, q.want)
		}
	}
	if l.Frames != 20_000 || l.Lost != 6 {
		t.Errorf("%d frames, %d lost", l.Frames, l.Lost)
	}
	total, last := uint64(0), time.Duration(0)
	for _, b := range l.Histogram {
		if b.UpTo <= last {
			t.Errorf("bucket to %v behind that to %v", b.UpTo, last)
		}
		total, last = total+b.Frames, b.UpTo
	}
	if total != l.Frames || last < time.Millisecond || last > 1200*time.Microsecond {
		t.Errorf("buckets of %d frames up to %v", total, last)
	}
	if trip.begin(1); trip.latency().Frames != 0 {
		t.Error("begin forgot nothing")
	}
}

func TestLatencyCells(t *testing.T) {
	if got := len(Settings{}.ListLatency()); got != 15 {
		t.Errorf("%d cells", got)
	}
	cells := roundTripCells(512, func(name string) bool { return name == "latency/512B/50%" })
	want := []report.LatencyCell{{Name: "latency/512B/50%", Load: 0.5, Most: 1, At: report.Coordinates{Topology: "loopback", Ring: "split", Size: 508, Queues: 1}}}
	if diff := cmp.Diff(want, cells); diff != "" {
		t.Error(diff)
	}
}

// An interrupted soak tells of the time that it had.
func TestSoakedPerSecond(t *testing.T) {
	if got := (soaked{runs: 4, pauses: 6}).perSecond(); got != 1.5 {
		t.Errorf("6 pauses in 4 runs of a second: %v a second", got)
	}
	if got := (soaked{}).perSecond(); got != 0 {
		t.Errorf("without a run: %v a second", got)
	}
}

// An error has no part in what was measured before it.
func TestErrorBehindLatencies(t *testing.T) {
	cells := []report.LatencyCell{{Of: report.Latency{Frames: 1}}, {}}
	without(cells, errors.New("vionet ended\nit printed: no room"))
	if !cells[0].Measured() || cells[1].Missing != "vionet ended" {
		t.Errorf("%+v", cells)
	}
}

// A bare thread runs as long as it shall.
func TestBareThread(t *testing.T) {
	const long = 20 * time.Millisecond
	begin := time.Now()
	count, longest := BareThread(long)
	if took := time.Since(begin); took < long {
		t.Errorf("%v, want %v", took, long)
	}
	if (count > 0) != (longest > longPause) {
		t.Errorf("%d times, %v at most", count, longest)
	}
}
