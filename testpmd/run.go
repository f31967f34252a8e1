package testpmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// errStart says that a run without a prompt had no ports to run with.
var errStart = errors.New("start ports failed")

// Run takes the console from its first line to its last: it starts the
// ports, forwards or asks for commands, and closes the ports again. It
// returns when people quit, in ends, or ctx is done, which are all the same
// orderly end; the error is nil for these.
func (c *Console) Run(ctx context.Context, in io.Reader) error {
	defer c.finish()
	c.ended = ctx.Done()
	c.announce()
	started := c.startUp()
	if !c.Options.Interactive {
		if !started {
			return errStart
		}
		return c.forwardOnly(ctx, in)
	}
	if c.Options.CmdlineFile != "" {
		c.load(c.Options.CmdlineFile, false)
	}
	if c.Options.AutoStart && !c.quitting {
		c.printf("Start automatic packet forwarding\n")
		c.startForwarding(0)
	}
	c.lines = c.openLines(in)
	return c.converse(ctx)
}

// announce prints what the command line set up.
func (c *Console) announce() {
	opts := c.Options
	if opts.Interactive {
		c.printf("Interactive-mode selected\n")
	}
	if opts.CmdlineFile != "" {
		c.printf("CLI commands to be read from %s\n", opts.CmdlineFile)
	}
	if opts.AutoStart {
		c.printf("Auto-start selected\n")
	}
	if opts.Mode != DefaultOptions().Mode {
		c.printf("Set %s packet forwarding mode\n", opts.Mode)
	}
	c.errorf("testpmd: create a new mbuf pool <%s>: n=%d, size=%d, socket=0\n", c.Pool.Name(), c.Pool.Size(), c.Pool.BufSize())
	if len(c.ports) == 0 {
		c.errorf("testpmd: No probed ethernet devices\n")
	}
	c.warnTopology()
}

// startUp starts the ports and makes them promiscuous, and reports whether
// all of them started.
func (c *Console) startUp() bool {
	if c.Options.KeepStopped {
		return true
	}
	if !c.startPorts(c.ports) {
		c.errorf("Start ports failed\n")
		return false
	}
	for _, p := range c.ports {
		if err := p.SetPromiscuous(true); err != nil {
			c.errorf("Error during enabling promiscuous mode for port %d: %s - ignore\n", p.id, errText(err))
		}
		c.checkXstats(p)
	}
	return true
}

// forwardOnly forwards until somebody presses enter, the input ends, or ctx
// is done; with a statistics period only the last counts.
func (c *Console) forwardOnly(ctx context.Context, in io.Reader) error {
	c.printf("No commandline core given, start packet forwarding\n")
	c.startForwarding(c.Options.TxFirst)
	if c.Options.StatsPeriod > 0 {
		return c.showPeriodically(ctx)
	}
	c.printf("Press enter to exit\n")
	pressed := make(chan struct{})
	go func() {
		in.Read(make([]byte, 1))
		close(pressed)
	}()
	select {
	case <-ctx.Done():
	case <-pressed:
	case err := <-c.faults:
		return err
	}
	return nil
}

// clearScreen moves people to the top of an empty screen.
const clearScreen = "\x1b[2J\x1b[1;1H"

func (c *Console) showPeriodically(ctx context.Context) error {
	tick := time.NewTicker(c.Options.StatsPeriod)
	defer tick.Stop()
	for {
		c.printf("%s\nPort statistics ====================================", clearScreen)
		for _, id := range c.fwdPorts[:c.nbPorts] {
			c.showStats(c.ports[id])
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-c.faults:
			return err
		case <-tick.C:
		}
	}
}

// converse asks for lines and runs them.
func (c *Console) converse(ctx context.Context) error {
	for !c.quitting {
		line, err := c.ask(ctx)
		if errors.Is(err, errInterrupted) && c.fwd != nil {
			c.stopForwarding()
			continue
		}
		if errors.Is(err, io.EOF) {
			c.printf("\n") // the prompt has its line to itself
		}
		if err != nil {
			return ignoreEnd(err)
		}
		c.Exec(line)
	}
	return nil
}

// ask waits for a line, the end of ctx, or a core that breaks down.
func (c *Console) ask(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	answered := make(chan answer, 1)
	c.setPrompting(true)
	defer c.setPrompting(false)
	c.lines.Prompt()
	go func() {
		line, err := c.lines.Line()
		answered <- answer{line, err}
	}()
	select {
	case a := <-answered:
		if a.err == nil {
			c.lines.Echo(a.line)
		}
		return a.line, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	case err := <-c.faults:
		return "", err
	}
}

func (c *Console) setPrompting(on bool) {
	c.mu.Lock()
	c.prompting = on
	c.mu.Unlock()
}

// ignoreEnd makes the ends of a conversation that are as good as quit no
// error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("console: %w", err)
}

// finish stops forwarding, then every port, then closes them. The terminal
// comes last: a line editor that is just about to ask has done so by then,
// and does not change the terminal after it was given back.
func (c *Console) finish() {
	if c.fwd != nil {
		c.stopForwarding()
	}
	if c.capture != nil {
		c.stopCapture()
	}
	open := c.openPorts()
	for _, p := range open {
		c.printf("\nStopping port %d...\n", p.id)
		c.stopPorts([]*portState{p}, false)
	}
	for _, p := range open {
		c.printf("\nShutting down port %d...\n", p.id)
		c.closePorts([]*portState{p})
	}
	c.printf("\nBye...\n")
	if c.lines != nil {
		c.lines.Close()
	}
}

// trimLine takes the end-of-line characters off.
func trimLine(line string) string { return strings.TrimRight(line, "\r\n") }
