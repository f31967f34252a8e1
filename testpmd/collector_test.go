package testpmd

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// collections is how often Go has collected garbage.
func collections() uint64 {
	m := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(m)
	return m[0].Value.Uint64()
}

// litter makes n MiB of garbage.
func litter(n int) {
	for range n {
		garbage = make([]byte, 1<<20)
	}
	garbage = nil
}

var garbage []byte

// While the collector is held, as much garbage as a console makes in hours is no reason
// to run it; more than the slack is. Afterwards everything is as it was.
func TestCollectorIsHeld(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer debug.SetGCPercent(percent)
	first, second := holdCollector(), holdCollector()
	before := collections()
	litter(collectorSlack >> 21)
	if n := collections() - before; n != 0 {
		t.Errorf("%d collections while it was held", n)
	}
	first()
	first() // does nothing
	litter(2 * collectorSlack >> 20)
	if collections() == before {
		t.Error("no collection when memory ran short")
	}
	second()
	if p := debug.SetGCPercent(100); p != 100 {
		t.Errorf("GOGC is %d afterwards", p)
	}
	if l := debug.SetMemoryLimit(-1); l != limit {
		t.Errorf("the limit of memory is %d afterwards, was %d", l, limit)
	}
}

func TestEnvironmentDecides(t *testing.T) {
	t.Setenv("GOGC", "50")
	percent := debug.SetGCPercent(50)
	defer debug.SetGCPercent(percent)
	defer holdCollector()()
	if p := debug.SetGCPercent(50); p != 50 {
		t.Errorf("GOGC is %d", p)
	}
}
