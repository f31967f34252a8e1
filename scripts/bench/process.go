package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// process is a child with a console on pipes, in a process group of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// start starts argv; its output is kept in memory and, for a look afterwards,
// in the log file.
func start(ctx context.Context, log string, argv []string) (*process, error) {
	// A pipe makes C programs buffer their output by the block.
	argv = append([]string{"stdbuf", "-oL"}, argv...)
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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

func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }

// pair is a host and its guest.
type pair struct {
	name      string
	counter   string
	processes []*process // the host first
}

// start adds a process to the pair.
func (p *pair) start(ctx context.Context, log string, argv []string) (*process, error) {
	proc, err := start(ctx, log, argv)
	if err == nil {
		p.processes = append(p.processes, proc)
	}
	return proc, err
}

func (p *pair) pause() error  { return p.signal(syscall.SIGSTOP) }
func (p *pair) resume() error { return p.signal(syscall.SIGCONT) }

func (p *pair) signal(s syscall.Signal) error {
	var errs []error
	for _, proc := range p.processes {
		errs = append(errs, proc.signal(s))
	}
	return errors.Join(errs...)
}

func (p *pair) kill() {
	p.signal(syscall.SIGKILL)
	for _, proc := range p.processes {
		<-proc.done
	}
}

// warmUp is the time between letting a pair run and the first count.
const warmUp = 50 * time.Millisecond

// measure lets the pair run for a window and returns the rate that its host
// counted, in packets a second.
func (p *pair) measure(ctx context.Context, window time.Duration) (float64, error) {
	if err := p.resume(); err != nil {
		return 0, err
	}
	defer p.pause()
	if err := sleep(ctx, warmUp); err != nil {
		return 0, err
	}
	n0, t0, err := p.count()
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, window); err != nil {
		return 0, err
	}
	n1, t1, err := p.count()
	if err != nil {
		return 0, err
	}
	return float64(n1-n0) / t1.Sub(t0).Seconds(), nil
}

// count asks the host for its counter.
func (p *pair) count() (uint64, time.Time, error) {
	host := p.processes[0]
	if err := host.send("show port stats 0"); err != nil {
		return 0, time.Time{}, err
	}
	m, err := host.waitMatch(regexp.MustCompile(p.counter+`:\s+(\d+)[\s\S]*#{76}\n`), 5*time.Second)
	now := time.Now()
	if err != nil {
		return 0, now, err
	}
	n, err := strconv.ParseUint(string(m[1]), 10, 64)
	return n, now, err
}
