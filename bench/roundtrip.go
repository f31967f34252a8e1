package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/bench/turns"
	"vionet/mbuf"
	"vionet/vhost"
)

// roundTripSizes are bytes of frames with their check sequence, as RFC 2544 has them.
var roundTripSizes = []int{64, 512, 1024, 1280, 1518}

// roundTripLoads are parts of the rate without loss.
var roundTripLoads = []float64{0.1, 0.5, 0.9}

// topRate is where the search for the rate without loss begins, in frames a second.
const topRate = 4_000_000

// Latency measures how long frames are on their way from the host to the guest and
// back, in both contestants, at parts of the rate that neither of them loses anything
// at.
func (s Settings) Latency(ctx context.Context) (report.Report, error) {
	r := report.Report{Date: time.Now(), Machine: report.ThisMachine()}
	if len(s.ListLatency()) == 0 {
		return r, errNoCell
	}
	restore, err := dpdkRoom(1)
	defer restore()
	if err != nil {
		return r, err
	}
	t := report.LatencyTable{
		Name: "latency", Title: "Latency: the host stamps, the guest returns",
		Note: "One split virtqueue pair, without mergeable buffers. The rate without loss, as far as the host can send it, is found by bisection, for each size: the lower one of both contestants.",
	}
	for _, size := range roundTripSizes {
		cells := roundTripCells(size, s.roundTripWanted)
		if len(cells) == 0 || ctx.Err() != nil {
			continue
		}
		if err := s.roundTrips(ctx, size, cells); err != nil {
			without(cells, err)
			s.failed(fmt.Sprintf("latency/%dB", size), err)
		}
		t.Cells = append(t.Cells, cells...)
	}
	r.Latencies = []report.LatencyTable{t}
	r.Interrupted = ctx.Err() != nil
	return r, unless(r.Measured())
}

// ListLatency is the names of the cells that Latency would measure.
func (s Settings) ListLatency() (names []string) {
	for _, size := range roundTripSizes {
		for _, c := range roundTripCells(size, s.roundTripWanted) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (s Settings) roundTripWanted(name string) bool {
	return s.Cells == nil || wholly(s.Cells).MatchString(name)
}

// roundTripCells are those of a size that are wanted.
func roundTripCells(size int, wanted func(string) bool) (cells []report.LatencyCell) {
	for _, load := range roundTripLoads {
		c := report.LatencyCell{
			Name: fmt.Sprintf("latency/%dB/%.0f%%", size, 100*load), Load: load, Most: 1,
			At: report.Coordinates{Topology: "loopback", Ring: "split", Size: size - frameCheck, Queues: 1},
		}
		if wanted(c.Name) {
			cells = append(cells, c)
		}
	}
	return cells
}

// without gives the cells that were not measured before an error its reason.
func without(cells []report.LatencyCell, err error) {
	for i := range cells {
		if c := &cells[i]; !c.Measured() {
			c.Missing = report.Reason(err)
		}
	}
}

// roundTrips measures the cells of a size.
func (s Settings) roundTrips(ctx context.Context, size int, cells []report.LatencyCell) error {
	trips, end, err := s.startTrips(ctx, size, peer.DPDK, like)
	defer end()
	if err != nil {
		return err
	}
	rate := topRate
	for _, trip := range trips {
		s.tell(Progress{Cell: fmt.Sprintf("%d B: the rate of %s without loss", size, trip.Name)})
		without, err := trip.withoutLoss(ctx, rate)
		if err != nil {
			return err
		}
		rate = min(rate, without)
	}
	for i := range cells {
		c := &cells[i]
		c.Offered = c.Load * float64(rate)
		s.tell(Progress{Cell: c.Name})
		var both []turns.Contestant[struct{}]
		for _, trip := range trips {
			trip.begin(int(c.Offered))
			both = append(both, trip)
		}
		result, err := turns.Alternate(ctx, s.plan(), both...)
		if err != nil {
			return err
		}
		c.Against, c.Of = trips[0].latency(), trips[1].latency()
		c.Windows, c.Disturbed = len(result.Samples[0]), result.Disturbed
	}
	return nil
}

// trip is a probe whose switch is a guest that returns what it gets, and what the probe
// has seen since begin.
type trip struct {
	*probe
	times *hdrhistogram.Histogram
	lost  int
}

// startTrips starts a trip for each end. The function ends them, also after an error.
func (s Settings) startTrips(ctx context.Context, size int, ends ...peer.End) (trips []*trip, end func(), err error) {
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return nil, func() {}, err
	}
	end = func() {
		for _, t := range trips {
			t.Kill()
		}
		os.RemoveAll(dir)
	}
	for _, e := range ends {
		t, err := startTrip(ctx, s.Vionet, dir, e, size)
		if err != nil {
			return trips, end, err
		}
		trips = append(trips, t)
	}
	return trips, end, nil
}

// startTrip starts the guest behind a port of this process.
func startTrip(ctx context.Context, vionet, dir string, e peer.End, size int) (_ *trip, err error) {
	name := "DPDK"
	if e.Vionet {
		name = "vionet"
	}
	p, err := newProbe(size-frameCheck, topRate)
	defer p.closeOn(&err)
	if err != nil {
		return nil, err
	}
	p.Name = name
	path := peer.Socket(dir, name, 0)
	if err := p.add(vhost.NewPort(vhost.PortConfig{Path: path})); err != nil {
		return nil, err
	}
	argv := append(e.Command(vionet, "trip"+name, switchCore), "--vdev", frontEnd(0, path)+e.Devargs, "--", "-i", "--total-num-mbufs=16384", "--forward-mode=io")
	if e.Vionet {
		argv = append([]string{"env", "GODEBUG=gctrace=1"}, argv...)
	}
	guest, err := p.Start(ctx, filepath.Join(dir, name+".log"), switchCore, argv)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(guest.Ready(), guest.Do("start")); err != nil {
		return nil, err
	}
	t := &trip{probe: p}
	t.begin(topRate)
	return t, p.Pause()
}

// begin forgets what was seen, and sets the rate in frames a second.
func (t *trip) begin(rate int) {
	t.pace(max(rate, 1))
	t.times, t.lost = hdrhistogram.New(1, int64(10*time.Second), 3), 0
}

// Measure sends for a window.
func (t *trip) Measure(ctx context.Context, window time.Duration) (none struct{}, err error) {
	return none, t.poll(ctx, func(cache *mbuf.Cache) error { return t.add(t.run(cache, window)) })
}

// add keeps the latencies of a run in which so many frames were sent.
func (t *trip) add(sent int) error {
	for _, took := range t.seen {
		if err := t.times.RecordValue(int64(took)); err != nil {
			return err
		}
	}
	t.lost += sent - len(t.seen)
	return nil
}

// The search for the rate without loss.
const (
	lossTrial = 20 * time.Millisecond // of each rate
	lossTries = 10                    // of a rate, since the machine loses frames as well
	lossSteps = 7
)

// withoutLoss finds the highest rate, up to most, at which every frame found room and
// came back in one of some tries. It is the rate that was sent at: the probe, which
// sends one frame at a time, may be slower than it was asked to be.
func (t *trip) withoutLoss(ctx context.Context, most int) (rate int, err error) {
	low, high := 0, most
	err = t.poll(ctx, func(cache *mbuf.Cache) error {
		for step := 0; step < lossSteps && ctx.Err() == nil; step++ {
			asked := high
			if step > 0 {
				asked = (low + high) / 2
			}
			sent := t.lossless(cache, asked)
			if sent == 0 {
				high = asked
				continue
			}
			low, rate = asked, max(rate, sent)
			if asked == most {
				break
			}
		}
		return ctx.Err()
	})
	if err == nil && rate == 0 {
		return 0, fmt.Errorf("%s: frames are lost at %d a second: the machine is too busy", t.Name, high)
	}
	return rate, err
}

// lossless tries a rate, and gives that which frames were sent at when none of them was
// lost; 0 when some always are.
func (t *trip) lossless(cache *mbuf.Cache, asked int) (rate int) {
	t.pace(asked)
	for range lossTries {
		sent := t.run(cache, lossTrial)
		if t.refused == 0 && len(t.seen) == sent {
			rate = max(rate, int(float64(sent)/lossTrial.Seconds()))
		}
	}
	return rate
}

// latency is what was seen since begin.
func (t *trip) latency() report.Latency {
	h := t.times
	at := func(percent float64) time.Duration { return time.Duration(h.ValueAtPercentile(percent)) }
	return report.Latency{
		Name: t.Name, Min: time.Duration(h.Min()), Median: at(50), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: time.Duration(h.Max()),
		Frames: uint64(h.TotalCount()), Lost: uint64(t.lost), Histogram: buckets(h),
	}
}

// bucketsPerDecade is how fine the histogram of a report is.
const bucketsPerDecade = 20

// buckets are those of a histogram that are not empty, on a logarithmic scale.
func buckets(h *hdrhistogram.Histogram) (all []report.Bucket) {
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		step := math.Ceil(bucketsPerDecade * math.Log10(float64(max(bar.To, 1))))
		upTo := time.Duration(math.Ceil(math.Pow(10, step/bucketsPerDecade)))
		if n := len(all); n > 0 && all[n-1].UpTo == upTo {
			all[n-1].Frames += uint64(bar.Count)
		} else {
			all = append(all, report.Bucket{UpTo: upTo, Frames: uint64(bar.Count)})
		}
	}
	return all
}
