package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child with a console on pipes, in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// apart are the flags for a process with a network and mounts of its own.
const apart = unix.CLONE_NEWNET | unix.CLONE_NEWNS

// start starts argv; its output is kept in memory and, for a look afterwards,
// in the log file. Flags are those of clone, 0 or apart.
func start(ctx context.Context, log string, flags uintptr, argv []string) (*process, error) {
	// A pipe makes C programs buffer their output by the block.
	argv = append([]string{"stdbuf", "-oL"}, argv...)
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: flags}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
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
		close(p.done)
	}()
	return p, nil
}

// Write keeps the child's output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *process) send(line string) error {
	_, err := io.WriteString(p.stdin, line+"\n")
	return err
}

// take gives the output up to the first match of re and forgets it.
func (p *process) take(re *regexp.Regexp) (match [][]byte) {
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

func (p *process) waitMatch(re *regexp.Regexp, limit time.Duration) ([][]byte, error) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(500 * time.Microsecond) {
		if m := p.take(re); m != nil {
			return m, nil
		}
		if err := p.alive(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no %q within %v; it printed:\n%s", re, limit, p.text())
}

func (p *process) waitFor(text string, limit time.Duration) error {
	_, err := p.waitMatch(regexp.MustCompile(regexp.QuoteMeta(text)), limit)
	return err
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func (p *process) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended (%v); it printed:\n%s", p.cmd.Args[5], p.cmd.ProcessState, p.text())
	default:
		return nil
	}
}

// ready waits for the prompt of the console.
func (p *process) ready() error { return p.waitFor("testpmd> ", 20*time.Second) }

// counter is a way to ask the console for a counter of a port.
func (p *process) counter(port int, name string) func() (uint64, error) {
	answer := regexp.MustCompile(name + `:\s+(\d+)[\s\S]*#{76}\n`)
	return func() (uint64, error) {
		if err := p.send(fmt.Sprintf("show port stats %d", port)); err != nil {
			return 0, err
		}
		m, err := p.waitMatch(answer, 5*time.Second)
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(string(m[1]), 10, 64)
	}
}

// cpuTime is the time that all threads of the process have had a processor.
func (p *process) cpuTime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(processClock(p.cmd.Process.Pid), &ts); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", p.cmd.Args[0], err)
	}
	return time.Duration(ts.Nano()), nil
}

// processClock is the clock that counts the processor time of a process
// (clock_getcpuclockid in the C library).
func processClock(pid int) int32 {
	const scheduler = 2 // the accounting that counts nanoseconds
	return int32(^pid)<<3 | scheduler
}

func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }
