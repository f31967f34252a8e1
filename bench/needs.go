package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vionet/bench/peer"
)

// machine is what a benchmark stands on. Tests have others.
type machine struct {
	root       string // above proc and sys
	processors func() []int
}

// thisMachine is the one that the program runs on.
var thisMachine = machine{root: "/", processors: allowed}

// allowed are the processors that this process may use.
func allowed() (cpus []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// cores are the processors of the hosts and of the guests.
func (m machine) cores() (both [2]int, err error) {
	cpus := m.processors()
	if len(cpus) < 2 {
		return both, fmt.Errorf("one processor: the two ends of a wire need one each; give this process a second one (taskset), or the machine")
	}
	return [2]int(cpus[:2]), nil
}

// findDPDK says how to get DPDK if it is not there.
func findDPDK() error {
	if _, err := exec.LookPath("dpdk-testpmd"); err != nil {
		return fmt.Errorf("dpdk-testpmd is missing: apt-get install dpdk-dev")
	}
	return nil
}

// The hugepages of 2 MiB, as sysfs has them.
const (
	hugepages     = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	freeHugepages = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
	pageSize      = 2 // MiB
)

// reserve raises the number of hugepages until as many processes as wanted find theirs,
// as far as that is possible, and tells how many do. Restore gives back what was raised.
func (m machine) reserve(processes int) (room int, restore func(), err error) {
	restore = func() {}
	total, free := m.number(hugepages), m.number(freeHugepages)
	const each = peer.Memory / pageSize
	if lacking := processes*each - free; lacking > 0 {
		// What the kernel can't give is seen below.
		err = m.setNumber(hugepages, total+lacking)
		restore = func() { _ = m.setNumber(hugepages, total) }
		free = m.number(freeHugepages)
	}
	if room = free / each; room == 0 {
		restore()
		if err == nil {
			err = fmt.Errorf("the kernel gave fewer than were asked for")
		}
		return 0, func() {}, fmt.Errorf("hugepages are missing: each process needs %d free ones of 2 MiB, here are %d; as root: echo %d > /%s (%w)",
			each, free, total+processes*each-free, hugepages, err)
	}
	return room, restore, nil
}

func (m machine) number(file string) int {
	b, _ := os.ReadFile(filepath.Join(m.root, file))
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

func (m machine) setNumber(file string, n int) error {
	return os.WriteFile(filepath.Join(m.root, file), []byte(strconv.Itoa(n)), 0o644)
}

// busyShare is how much of a processor others may have before anything is said.
const busyShare = 0.2

// othersAt says which of the cores others keep busy, "" if none, from what happens in a
// while.
func (m machine) othersAt(cores []int, wait func()) string {
	before := m.ticks()
	wait()
	after := m.ticks()
	var words []string
	for _, core := range cores {
		a, b := before[core], after[core]
		if all := b.all - a.all; all > 0 {
			if share := 1 - float64(b.idle-a.idle)/float64(all); share > busyShare {
				words = append(words, fmt.Sprintf("processor %d is %.0f %% busy with other work", core, 100*share))
			}
		}
	}
	return strings.Join(words, ", ")
}

// aWhile is long enough for a look at the load of the processors.
func aWhile() { time.Sleep(300 * time.Millisecond) }

// ticks are the times of a processor so far, in the kernel's ticks.
type ticks struct{ idle, all int }

// ticks are those of each processor.
func (m machine) ticks() map[int]ticks {
	f, err := os.Open(filepath.Join(m.root, "proc/stat"))
	if err != nil {
		return nil
	}
	defer f.Close()
	of := map[int]ticks{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// cpu0 user nice system idle iowait irq softirq steal …, of which the
		// rest is in user already.
		fields := strings.Fields(lines.Text())
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		core, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil {
			continue // the line of all processors
		}
		var t ticks
		for i, field := range fields[1:9] {
			n, _ := strconv.Atoi(field)
			t.all += n
			if i == 3 || i == 4 {
				t.idle += n
			}
		}
		of[core] = t
	}
	return of
}
