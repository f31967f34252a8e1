package testpmd

import (
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"vionet/testpmd/engine"
)

// A worker that never finds its queues empty lets others run, where there is no other
// thread for them.
func TestBusyWorkerYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const turns = 4
	rounds, others := 0, 0
	var stop atomic.Bool
	w := &worker{
		yields:  true,
		streams: []*engine.Stream{{}},
		stop:    &stop,
		forward: func(*engine.Stream) int {
			if rounds++; rounds == turns*busyRounds {
				stop.Store(true)
			}
			return 1
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			others++
			runtime.Gosched()
		}
	}()
	w.loop()
	<-done
	if others < turns-1 { // it may not have started before the first
		t.Errorf("others ran %d times in %d rounds, want %d", others, rounds, turns)
	}
}

// A worker's thread is bound only when the process has processors beside the core's:
// the way back to a thread that a goroutine is tied to is long.
func TestBindOnlyToAPartOfTheProcessors(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var every []int
	for cpu := range 1024 {
		if all.IsSet(cpu) {
			every = append(every, cpu)
		}
	}
	bound := func(cpus []int) (bound bool) {
		done := make(chan struct{})
		go func() { // its thread, if bound, ends with it
			defer close(done)
			before := unix.Gettid()
			(&worker{core: Core{CPUs: cpus}}).bind()
			var now unix.CPUSet
			if err := unix.SchedGetaffinity(0, &now); err != nil {
				t.Error(err)
			}
			bound = now != all && unix.Gettid() == before
		}()
		<-done
		return bound
	}
	if bound(every) || bound(nil) {
		t.Error("a worker that may use all processors is bound")
	}
	if len(every) > 1 && !bound(every[:1]) {
		t.Error("a worker is not bound to its core")
	}
}
