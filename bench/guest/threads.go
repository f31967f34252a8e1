package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vionet/bench/turns"
)

// thread is one of a process.
type thread struct {
	id  int
	had time.Duration // processor time so far
}

// group is some threads of a process.
type group []thread

// threads are those of a process whose names are wanted; nil wants all. One that ends
// meanwhile is left out.
func threads(pid int, wanted func(name string) bool) (g group, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		name, err := os.ReadFile(filepath.Join(task, "comm"))
		if err != nil || wanted != nil && !wanted(string(name)) {
			continue
		}
		// The first number is nanoseconds on a processor.
		stat, err := os.ReadFile(filepath.Join(task, "schedstat"))
		if err != nil {
			continue
		}
		var t thread
		if _, err := fmt.Sscan(string(stat), (*int64)(&t.had)); err != nil {
			return nil, fmt.Errorf("%s/schedstat: %w", task, err)
		}
		if t.id, err = strconv.Atoi(filepath.Base(task)); err != nil {
			return nil, err
		}
		g = append(g, t)
	}
	if len(g) == 0 {
		return nil, fmt.Errorf("process %d has none of the threads that were looked for", pid)
	}
	return g, nil
}

// isProcessor reports whether a thread of QEMU's is a processor of the guest.
func isProcessor(name string) bool { return strings.HasPrefix(name, "CPU ") }

// had is the processor time of all.
func (g group) had() (sum time.Duration) {
	for _, t := range g {
		sum += t.had
	}
	return sum
}

// pin puts the threads on a core.
func (g group) pin(core int) error {
	var set unix.CPUSet
	set.Set(core)
	for _, t := range g {
		if err := unix.SchedSetaffinity(t.id, &set); err != nil {
			return fmt.Errorf("put a thread on processor %d: %w", core, err)
		}
	}
	return nil
}

// pinGuest puts the processors of a guest on one core, and QEMU's other threads on
// another.
func pinGuest(qemu int) error {
	processors, err := threads(qemu, isProcessor)
	if err != nil {
		return err
	}
	others, err := threads(qemu, func(name string) bool { return !isProcessor(name) })
	if err != nil {
		return err
	}
	if err := processors.pin(guestCore); err != nil {
		return err
	}
	return others.pin(hostCore)
}

// undisturbed is the share of a core that whoever polls on it has when nobody else
// wants it for long: some threads of the benchmark itself wake up now and then.
const undisturbed = 0.9

// disturbance is an error if one of those that poll had less. On a core that is shared
// the two ends of a ring run by turns, and whatever they are they move a ring at a turn.
func disturbance(before, after map[string]time.Duration, passed time.Duration) error {
	for who := range before {
		if share := float64(after[who]-before[who]) / float64(passed); share < undisturbed {
			return &turns.Disturbed{By: fmt.Sprintf("others: %s had %.0f %% of its processor", who, 100*share)}
		}
	}
	return nil
}
