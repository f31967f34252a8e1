package main

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pipedConsole is a console with pipes for input and output.
type pipedConsole struct {
	heard
	cmd    *exec.Cmd
	in     io.WriteCloser
	errors strings.Builder
	pumped chan struct{}
}

func openPiped(t *testing.T, args ...string) *pipedConsole {
	t.Helper()
	c := &pipedConsole{cmd: program(args...), pumped: make(chan struct{})}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.cmd.Stderr = in, &c.errors
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	go func() { c.pump(out); close(c.pumped) }()
	return c
}

// ended waits for the program to end with status 0 after one clean-up.
func (c *pipedConsole) ended(t *testing.T) {
	t.Helper()
	<-c.pumped
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v\n%s", err, c.errors.String())
	}
	text := c.all()
	for part, times := range map[string]int{"Stopping port 0...": 1, "Port 0 is closed": 1, "Bye...": 1} {
		if n := strings.Count(text, part); n != times {
			t.Errorf("%q stands %d times in\n%s", part, n, text)
		}
	}
	if !strings.HasSuffix(text, "\nBye...\n") {
		t.Errorf("the last lines are %q", text[max(0, len(text)-200):])
	}
}

func TestB26SignalsEndInOrder(t *testing.T) {
	for _, again := range []time.Duration{-1, 0, 10 * time.Millisecond, 100 * time.Millisecond} {
		c := openPiped(t, nullConsole...)
		io.WriteString(c.in, "start\n")
		c.expect(t, "bit threshold=0\ntestpmd> ")
		c.cmd.Process.Signal(syscall.SIGINT)
		if again >= 0 {
			time.Sleep(again)
			c.cmd.Process.Signal(syscall.SIGINT)
		}
		c.ended(t)
	}
}

func TestB26SignalDuringStartAndStop(t *testing.T) {
	for _, commands := range []string{"start\n", "start\nstop\n", "port stop 0\nport start 0\n"} {
		c := openPiped(t, nullConsole...)
		c.expect(t, "testpmd> ")
		io.WriteString(c.in, commands)
		c.cmd.Process.Signal(syscall.SIGTERM)
		c.ended(t)
	}
}

func TestB26EndOfInput(t *testing.T) {
	interactive := openPiped(t, nullConsole...)
	interactive.in.Close()
	interactive.ended(t)

	var args []string
	for _, a := range nullConsole {
		if a != "-i" {
			args = append(args, a)
		}
	}
	forwarding := openPiped(t, args...)
	forwarding.expect(t, "Press enter to exit\n")
	forwarding.in.Close()
	forwarding.ended(t)

	periodic := openPiped(t, append(args, "--stats-period=1")...)
	periodic.in.Close()
	periodic.expect(t, "NIC statistics for port 0")
	periodic.expect(t, "NIC statistics for port 0")
	periodic.cmd.Process.Signal(syscall.SIGINT)
	periodic.ended(t)
}
