package testpmd

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/peterh/liner"
	"golang.org/x/term"
)

// lineSource is where commands come from.
type lineSource interface {
	// Prompt asks for a line, if Line does not do so itself.
	Prompt()
	// Line waits for the next line. At the end it returns io.EOF.
	Line() (string, error)
	// Close gives the terminal back as it was, also while Line waits.
	Close() error
}

// openLines reads commands from in, with a line editor if it is the terminal
// that people sit at.
func (c *Console) openLines(in io.Reader) lineSource {
	if in == os.Stdin && c.Out == os.Stdout && term.IsTerminal(0) && term.IsTerminal(1) {
		return newTerminal(c.commands)
	}
	return &pipe{c: c, in: bufio.NewReader(in)}
}

// pipe reads commands from a file or another program. It shows each one
// behind the prompt, so that what was printed reads like a session.
type pipe struct {
	c  *Console
	in *bufio.Reader
}

func (p *pipe) Prompt() { p.c.printf("%s", Prompt) }

func (p *pipe) Line() (string, error) {
	line, err := p.in.ReadString('\n')
	if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
		return "", err
	}
	line = trimLine(line)
	p.c.printf("%s\n", line)
	return line, nil
}

func (p *pipe) Close() error { return nil }

// terminal edits lines, remembers them, and completes words.
type terminal struct{ state *liner.State }

func newTerminal(commands []*command) *terminal {
	t := &terminal{liner.NewLiner()}
	t.state.SetTabCompletionStyle(liner.TabPrints)
	t.state.SetCompleter(func(line string) []string { return complete(commands, line) })
	return t
}

func (t *terminal) Prompt() {}

func (t *terminal) Line() (string, error) {
	line, err := t.state.Prompt(Prompt)
	if err != nil {
		return "", err
	}
	if line != "" {
		t.state.AppendHistory(line)
	}
	return line, nil
}

func (t *terminal) Close() error { return t.state.Close() }
