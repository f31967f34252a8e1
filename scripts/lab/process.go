package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// drain is how long the last output of a program that has ended may take to
// arrive.
const drain = 2 * time.Second

// Process is a program on this host whose terminal is a Console.
type Process struct {
	*Console
	cmd    *exec.Cmd
	cancel context.CancelFunc
	done   chan struct{} // closed when the program and its output are over
	killed error         // why we killed it, set before done is closed
}

// Run starts a program on a terminal of its own, without echo, 80 columns by
// 24 rows. The program is killed when ctx ends, on Close, and when this
// process dies. Mirror, when not nil, gets a copy of all that it says.
func Run(ctx context.Context, mirror io.Writer, env []string, argv ...string) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return startProcess(ctx, cancel, cmd, mirror)
}

// startProcess starts cmd, which was made with ctx; cancel ends ctx.
func startProcess(ctx context.Context, cancel context.CancelFunc, cmd *exec.Cmd, mirror io.Writer) (*Process, error) {
	master, err := startOnTerminal(cmd)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	p := &Process{
		Console: newConsole(cmd.Args[0], master, mirror),
		cmd:     cmd,
		cancel:  cancel,
		done:    make(chan struct{}),
	}
	heard := make(chan struct{})
	go func() {
		p.pump(master)
		close(heard)
	}()
	go func() {
		_ = cmd.Wait() // the status is in cmd.ProcessState
		p.killed = ctx.Err()
		select {
		case <-heard:
		case <-time.After(drain): // a child of the program holds the terminal
		}
		master.Close()
		<-heard
		cancel()
		close(p.done)
	}()
	return p, nil
}

// startOnTerminal starts cmd as the leader of a session on a new terminal and
// gives the terminal's other end.
func startOnTerminal(cmd *exec.Cmd) (*os.File, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	// The death signal follows the thread that starts the program. Go ends a
	// thread early only if a goroutine locked to it ends: see onThread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: unix.SIGKILL}
	if err = quiet(slave); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		master.Close()
		return nil, err
	}
	return master, nil
}

// quiet makes a terminal add nothing of its own, no echo and no carriage
// returns, and gives it a usual size.
func quiet(tty *os.File) error {
	fd := int(tty.Fd())
	state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	state.Lflag &^= unix.ECHO
	state.Oflag &^= unix.ONLCR
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, state); err != nil {
		return err
	}
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
}

// Pid is the process id of the program.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Wait waits for the end of the program and gives its exit status. A program
// that a signal ended is an error, and so is the end of ctx, which leaves the
// program running.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return -1, fmt.Errorf("%s has not ended: %w%s", p.name, ctx.Err(), p.last())
	}
	status := p.cmd.ProcessState.ExitCode()
	if status < 0 && p.killed != nil {
		return status, fmt.Errorf("%s was killed: %w%s", p.name, p.killed, p.last())
	}
	if status < 0 {
		return status, fmt.Errorf("%s: %s%s", p.name, p.cmd.ProcessState, p.last())
	}
	return status, nil
}

// Quit leaves a testpmd console by its own command and waits for the program
// to end well.
func (p *Process) Quit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.Send("quit"); err != nil {
		return err
	}
	status, err := p.Wait(ctx)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s: exit status %d after quit%s", p.name, status, p.last())
	}
	return err
}

// Signal sends a signal to the program.
func (p *Process) Signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Close kills the program if it still runs, and returns when it is gone and
// all that it said is in the transcript. It may be called again.
func (p *Process) Close() {
	p.cancel()
	<-p.done
}
