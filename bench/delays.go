package bench

import (
	"slices"
	"time"

	"vionet/bench/turns"
)

// delays are the latencies of the frames of a window.
type delays struct {
	least, average, most time.Duration
	middle               time.Duration // the median
	late                 time.Duration // 999 frames of 1000 were faster, or as fast
	lost                 int           // frames that did not come back
}

func (d delays) median() float64 { return float64(d.middle) }
func (d delays) mean() float64   { return float64(d.average) }
func (d delays) tail() float64   { return float64(d.late) }

// summarise makes delays of the latencies of single frames, which it sorts.
func summarise(of []time.Duration) (d delays) {
	if len(of) == 0 {
		return d
	}
	slices.Sort(of)
	var sum time.Duration
	for _, one := range of {
		sum += one
	}
	// The smallest rank that 99.9 % of the frames are at or below.
	rank := (len(of)*999 + 999) / 1000
	return delays{least: of[0], average: sum / time.Duration(len(of)), middle: of[len(of)/2], late: of[rank-1], most: of[len(of)-1]}
}

// overall sums windows up: the extremes of all, and the medians of the medians, of
// the averages and of the late ones.
func overall(windows []delays) delays {
	if len(windows) == 0 {
		return delays{}
	}
	all := windows[0]
	all.lost = 0
	for _, w := range windows {
		all.least, all.most = min(all.least, w.least), max(all.most, w.most)
		all.lost += w.lost
	}
	all.middle = time.Duration(turns.Median(windows, delays.median))
	all.average = time.Duration(turns.Median(windows, delays.mean))
	all.late = time.Duration(turns.Median(windows, delays.tail))
	return all
}
