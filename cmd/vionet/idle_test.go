package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

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
