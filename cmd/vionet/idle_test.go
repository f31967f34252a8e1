package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"vionet/scripts/lab"
)

// maxIdle is what the idle console may hold on plain pages.
const maxIdle = 64 << 20

func TestIdleConsoleIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program; skipped by -short")
	}
	p := lab.Spawn(t, vionet(t), "testpmd", "--no-pci", "--no-huge", "--", "-i")
	if _, err := p.Expect(t.Context(), lab.Prompt); err != nil {
		t.Fatal(err)
	}
	held := residentSize(t, p.Pid())
	t.Logf("%.1f MiB", float64(held)/(1<<20))
	if held > maxIdle {
		t.Errorf("the idle console holds %d bytes", held)
	}
	quit(t, p)
}

// Forwarding that may sleep costs nothing while nothing comes: less than 1 % of a
// processor, over all threads of the console and of the embedded device.
func TestIdleForwardingSleeps(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processor time for seconds; skipped by -short")
	}
	const idle = 5 * time.Second
	for _, mode := range []string{"adaptive", "interrupt"} {
		t.Run(mode, func(t *testing.T) {
			p := lab.Spawn(t, vionet(t), "testpmd", "--no-pci", "--no-huge", "--", "-i", "-a", "--poll-mode", mode)
			if _, err := p.Expect(t.Context(), lab.Prompt); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // until the start is over
			before := processorTime(t, p.Pid())
			time.Sleep(idle)
			spent := processorTime(t, p.Pid()) - before
			t.Logf("%v of %v", spent, idle)
			if spent > idle/100 {
				t.Errorf("idle forwarding took %v of processor time in %v", spent, idle)
			}
			quit(t, p)
		})
	}
}

// processorTime is what a process has taken of the processors so far, in ticks
// of 10 ms (proc(5), utime and stime).
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, text := range fields[11:13] {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// residentSize is the memory of a process that is really there, in bytes.
func residentSize(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(text)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
