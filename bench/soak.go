package bench

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"vionet/bench/peer"
	"vionet/bench/report"
	"vionet/mbuf"
)

// soakSize is the size of the frames in bytes, soakLoad their part of the rate without
// loss.
const (
	soakSize = 64
	soakLoad = 0.5
)

// soakWindow is how long the frames of one run are kept before they are counted.
const soakWindow = time.Second

// longPause is what neither the garbage collector nor the scheduler may take.
const longPause = 100 * time.Microsecond

// Soak sends at half the rate without loss for a long time, and says of what kind the
// pauses were: the collector's stops as the guest's runtime tells them, and what a bare
// thread suffers on the guest's core, before and afterwards, from the machine alone.
func (s Settings) Soak(ctx context.Context, duration time.Duration) (report.Report, error) {
	r := report.Report{Date: time.Now(), Machine: report.ThisMachine()}
	cell := report.LatencyCell{
		Name: "soak", Load: soakLoad,
		At: report.Coordinates{Topology: "loopback", Ring: "split", Size: soakSize - frameCheck, Queues: 1},
	}
	bare := duration / 20
	before, err := s.bareThread(ctx, bare)
	if err != nil {
		return r, err
	}
	trips, end, err := s.startTrips(ctx, soakSize, peer.Vionet)
	defer end()
	if err != nil {
		return r, err
	}
	t := trips[0]
	rate, err := t.withoutLoss(ctx, topRate)
	if err != nil {
		return r, err
	}
	cell.Offered = soakLoad * float64(rate)
	t.begin(int(cell.Offered))
	s.tell(Progress{Cell: fmt.Sprintf("soak: %.0f frames a second for %v", cell.Offered, duration)})
	said := len(t.Processes[0].Log())
	k, err := t.soak(ctx, duration)
	if err != nil && ctx.Err() == nil {
		return r, err
	}
	cell.Of, cell.Windows = t.latency(), k.runs
	stops := collections(t.Processes[0].Log()[said:])
	after, err := s.bareThread(context.WithoutCancel(ctx), bare)
	if err != nil {
		return r, err
	}
	r.Interrupted = ctx.Err() != nil
	r.Latencies = []report.LatencyTable{{
		Name: "soak", Title: fmt.Sprintf("Latency over %v, and what the pauses are", duration), Cells: []report.LatencyCell{cell},
		Note: fmt.Sprintf("The guest's garbage collector ran %d times and stopped it for %v at most. "+
			"In %d of %d runs of %v a frame took more than %v; in %d of these the host itself, which measures, was kept from its core as long. "+
			"A bare thread on the guest's core, with neither collector nor scheduler, was kept from it for more than %v %.1f times a second before and %.1f afterwards, for %v and %v at most; the guest was late %.1f times a second.",
			stops.count, stops.longest, k.late, k.runs, soakWindow, longPause, k.held, longPause,
			before.perSecond(), after.perSecond(), before.longest, after.longest, k.perSecond()),
	}}
	return r, nil
}

// soaked is what a soak has seen besides latencies.
type soaked struct {
	runs, late, held int // runs, those with a late frame, those of them in which the probe was held up itself
	pauses           int // rows of late frames
}

// perSecond is how often the guest was late, in the runs that there were.
func (k soaked) perSecond() float64 {
	return float64(k.pauses) / (time.Duration(max(k.runs, 1)) * soakWindow).Seconds()
}

// soak runs until the time is over.
func (t *trip) soak(ctx context.Context, duration time.Duration) (k soaked, err error) {
	err = t.poll(ctx, func(cache *mbuf.Cache) error {
		for begin := time.Now(); time.Since(begin) < duration && ctx.Err() == nil; {
			if err := t.add(t.run(cache, soakWindow)); err != nil {
				return err
			}
			k.runs++
			if n := pauses(t.seen); n > 0 {
				k.late++
				k.pauses += n
				if t.held > longPause {
					k.held++
				}
			}
		}
		return ctx.Err()
	})
	return k, err
}

// pauses counts the rows of late frames: one pause makes all late that wait.
func pauses(took []time.Duration) (n int) {
	late := false
	for _, d := range took {
		if !late && d > longPause {
			n++
		}
		late = d > longPause
	}
	return n
}

// stopped is how often something was stopped.
type stopped struct {
	count   int
	longest time.Duration
	over    time.Duration // in which that was counted
}

func (s stopped) perSecond() float64 { return float64(s.count) / s.over.Seconds() }

// collection is a line that Go's runtime prints for each garbage collection: the clock
// times of its three phases in milliseconds, of which the first and the last stop the
// program.
var collection = regexp.MustCompile(`(?m)^gc \d+ @.*: ([0-9.]+)\+[0-9.]+\+([0-9.]+) ms clock`)

// collections are those in the log of a Go program.
func collections(log string) (s stopped) {
	for _, m := range collection.FindAllStringSubmatch(log, -1) {
		s.count++
		for _, ms := range m[1:] {
			f, _ := strconv.ParseFloat(ms, 64)
			s.longest = max(s.longest, time.Duration(f*1e6))
		}
	}
	return s
}

// BareCommand is the name of the subcommand that runs a bare thread.
const BareCommand = "bare-thread"

// bareThread runs one on the guest's core.
func (s Settings) bareThread(ctx context.Context, d time.Duration) (stopped, error) {
	s.tell(Progress{Cell: fmt.Sprintf("a bare thread for %v", d)})
	cmd := exec.CommandContext(ctx, "env", "GODEBUG=asyncpreemptoff=1", "GOGC=off",
		"taskset", "-c", strconv.Itoa(switchCore), s.Vionet, "bench", BareCommand, "--for", d.String())
	out, err := cmd.Output()
	if err != nil {
		return stopped{}, fmt.Errorf("bare thread: %w", err)
	}
	r := stopped{over: d}
	_, err = fmt.Sscanf(strings.TrimSpace(string(out)), "%d %d", &r.count, &r.longest)
	return r, err
}
