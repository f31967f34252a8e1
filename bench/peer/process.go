// Package peer starts the processes that a benchmark measures: testpmds, DPDK's and
// vionet's, with their consoles on pipes, each on a processor of its own.
package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a child with a console on pipes, in a process group of its own. Its
// methods may be called by one goroutine at a time.
type Process struct {
	Program string        // its name, for messages
	Done    chan struct{} // closed when it has ended

	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   string // a file

	mu     sync.Mutex
	output bytes.Buffer
}

// apart are the flags for a process with a network and mounts of its own.
const apart = unix.CLONE_NEWNET | unix.CLONE_NEWNS

// Start starts argv on a core; the process ends with ctx. Its output is kept in memory,
// what it writes to stderr goes into the log file.
func Start(ctx context.Context, log string, core int, argv []string) (*Process, error) {
	return startWith(ctx, log, 0, core, argv)
}

// startWith takes flags of clone, 0 or apart.
func startWith(ctx context.Context, log string, flags uintptr, core int, argv []string) (*Process, error) {
	p := &Process{Program: filepath.Base(argv[0]), log: log, Done: make(chan struct{})}
	// A pipe makes C programs buffer their output by the block.
	argv = append([]string{"stdbuf", "-oL", "taskset", "-c", strconv.Itoa(core)}, argv...)
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: flags}
	p.cmd.Cancel = func() error { return p.Signal(syscall.SIGKILL) }
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p.cmd.Stdout, p.cmd.Stderr = p, f
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait()
		close(p.Done)
	}()
	return p, nil
}

// PID is the number of the process and of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Write keeps the child's output.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

// Send sends a line to the console.
func (p *Process) Send(line string) error {
	_, err := io.WriteString(p.stdin, line+"\n")
	return err
}

// take gives the output up to the first match of re and forgets it.
func (p *Process) take(re *regexp.Regexp) (match [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := re.FindSubmatch(p.output.Bytes())
	if m == nil {
		return nil
	}
	match = make([][]byte, len(m))
	for i := range m {
		match[i] = bytes.Clone(m[i])
	}
	p.output.Reset()
	return match
}

func (p *Process) waitMatch(re *regexp.Regexp, limit time.Duration) ([][]byte, error) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(500 * time.Microsecond) {
		if m := p.take(re); m != nil {
			return m, nil
		}
		if err := p.Alive(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s gave no %q within %v%s", p.Program, re, limit, p.lastWords())
}

// WaitFor waits for a text in the output, and forgets what was printed so far.
func (p *Process) WaitFor(text string, limit time.Duration) error {
	_, err := p.waitMatch(regexp.MustCompile(regexp.QuoteMeta(text)), limit)
	return err
}

// Log is what the process has written to stderr.
func (p *Process) Log() string {
	b, _ := os.ReadFile(p.log)
	return string(b)
}

// lastWords are the last lines that the process printed, of either stream.
func (p *Process) lastWords() string {
	p.mu.Lock()
	said := p.output.Bytes()
	p.mu.Unlock()
	const most = 400 // bytes
	var words string
	for _, b := range [][]byte{[]byte(p.Log()), said} {
		if b = bytes.TrimSpace(b[max(0, len(b)-most):]); len(b) > 0 {
			words += "\n" + string(b)
		}
	}
	if words == "" {
		return ""
	}
	return "\nit printed:" + words
}

// Alive is an error with the last that the process printed if it has ended.
func (p *Process) Alive() error {
	select {
	case <-p.Done:
		return fmt.Errorf("%s ended (%v)%s", p.Program, p.cmd.ProcessState, p.lastWords())
	default:
		return nil
	}
}

// Counter is a way to ask the console for a counter of a port.
func (p *Process) Counter(port int, name string) func() (uint64, error) {
	line, answer := fmt.Sprintf("show port stats %d", port), regexp.MustCompile(name+`:\s+(\d+)[\s\S]*#{76}\n[\s\S]*`+prompt)
	return func() (uint64, error) {
		if err := p.Send(line); err != nil {
			return 0, errors.Join(p.Alive(), err)
		}
		m, err := p.waitMatch(answer, patience)
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(string(m[1]), 10, 64)
	}
}

// CPUTime is the time that all threads of the process have had a processor.
func (p *Process) CPUTime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(processClock(p.PID()), &ts); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", p.Program, err)
	}
	return time.Duration(ts.Nano()), nil
}

// processClock is the clock that counts the processor time of a process
// (clock_getcpuclockid in the C library).
func processClock(pid int) int32 {
	const scheduler = 2 // the accounting that counts nanoseconds
	return int32(^pid)<<3 | scheduler
}

// Signal sends a signal to the process and to all that it started.
func (p *Process) Signal(s syscall.Signal) error { return syscall.Kill(-p.PID(), s) }
