package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"vionet/bench/report"
	"vionet/scripts/lab"
)

// benchRun is a vionet bench with real peers.
type benchRun struct {
	*exec.Cmd
	stderr *bufio.Scanner
}

func startBench(t *testing.T, args ...string) benchRun {
	t.Helper()
	run := benchRun{Cmd: exec.CommandContext(t.Context(), vionet(t), append([]string{"bench"}, args...)...)}
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	run.stderr = bufio.NewScanner(pipe)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	return run
}

// readJSON reads a report.
func readJSON(t *testing.T, path string) report.Report {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := report.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// peersOf are the processes of DPDK that a process has started.
func peersOf(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …
		var pid, ppid int
		var name, state string
		if n, _ := fmt.Sscanf(string(b), "%d %s %s %d", &pid, &name, &state, &ppid); n == 4 && ppid == parent && name == "(dpdk-testpmd)" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Cells are measured between real peers, and written as JSON. One of the peers dies on
// the way: its cell says so, and those after it are measured.
func TestBenchWithAPeerThatDies(t *testing.T) {
	lab.Need(t, "dpdk", "root")
	results := filepath.Join(t.TempDir(), "results.json")
	run := startBench(t, "--cells", "guest-to-host/split/mrg/simple/(64|128|256|512)B/1q/b32", "--windows", "2", "--window", "50ms", "--json", results)
	killed := 0
	for run.stderr.Scan() {
		line := run.stderr.Text()
		t.Log(line)
		if killed == 0 && strings.HasSuffix(line, "guest-to-host/split/mrg/simple/64B/1q/b32") {
			killed = peersOf(t, run.Process.Pid)[0]
			if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := run.Wait(); err != nil || killed == 0 {
		t.Fatalf("%v; killed %d", err, killed)
	}
	r := readJSON(t, results)
	if len(r.Tables) != 1 || len(r.Tables[0].Cells) != 4 || r.Machine.DPDK == "" {
		t.Fatalf("%+v", r)
	}
	var missing []string
	for i, c := range r.Tables[0].Cells {
		if want := []int{64, 128, 256, 512}[i]; c.At.Size != want || !strings.Contains(c.Name, "/"+strconv.Itoa(want)+"B/") {
			t.Errorf("cell %d is %s", i, c.Name)
		}
		if !c.Measured() {
			missing = append(missing, c.Missing)
			continue
		}
		if c.Windows != 2 || c.Ratio.Median <= 0 || c.Of.Value.Median <= 0 || c.Against.Value.Median <= 0 {
			t.Errorf("%+v", c)
		}
		if c.Of.Path != "mergeable buffer Rx, simple Tx" || c.Against.Path != "mergeable buffer Rx, standard Tx" {
			t.Errorf("paths %q and %q", c.Of.Path, c.Against.Path)
		}
	}
	if len(missing) != 1 || !strings.HasSuffix(missing[0], "dpdk-testpmd ended (signal: killed)") {
		t.Errorf("not measured: %q", missing)
	}
	if last := r.Tables[0].Cells[3]; !last.Measured() {
		t.Errorf("the last cell was not measured: %s", last.Missing)
	}
}

// An interrupt ends a run with what it has.
func TestBenchInterrupted(t *testing.T) {
	lab.Need(t, "dpdk", "root")
	dir := t.TempDir()
	results := filepath.Join(dir, "results.json")
	// The standard path, to see that it is one.
	run := startBench(t, "--cells", "(host-to-guest|loopback|pvp)/split/nomrg/standard/64B/1q/b32", "--windows", "1", "--window", "20ms", "--json", results, "--text", filepath.Join(dir, "results.txt"))
	for run.stderr.Scan() {
		line := run.stderr.Text()
		t.Log(line)
		if strings.Contains(line, "pvp/") {
			run.Process.Signal(os.Interrupt)
		}
	}
	if err := run.Wait(); err == nil {
		t.Error("exit status 0")
	}
	r := readJSON(t, results)
	if !r.Interrupted || len(r.Tables) == 0 {
		t.Fatalf("%+v", r)
	}
	i := slices.IndexFunc(r.Tables[0].Cells, func(c report.Cell) bool { return c.At.Topology == "pvp" })
	if i < 0 || len(r.Tables[0].Cells) == 3 {
		t.Fatalf("%+v", r.Tables)
	}
	if c := r.Tables[0].Cells[i]; !strings.HasSuffix(c.Of.Path, "standard Tx") {
		t.Errorf("with an offload the path is %q", c.Of.Path)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "results.txt")); err != nil || !strings.Contains(string(text), "interrupted") {
		t.Errorf("%s, %v", text, err)
	}
}
