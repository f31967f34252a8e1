package testpmd

import (
	"bufio"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// lineSource is where commands come from.
type lineSource interface {
	// Prompt asks for a line, if Line does not do so itself.
	Prompt()
	// Line waits for the next line. At the end it returns io.EOF.
	Line() (string, error)
	// Echo shows a line that Line gave, if nobody saw it being typed.
	Echo(line string)
	// Enter waits until people have pressed Enter, at most that long, and reports
	// whether they have. It is not called while Line waits.
	Enter(limit time.Duration) bool
	// Close gives the terminal back as it was, also while Line waits.
	Close() error
}

// openLines reads commands from in, with a line editor if it is the terminal
// that people sit at.
func (c *Console) openLines(in io.Reader) lineSource {
	if in == os.Stdin && c.Out == os.Stdout && term.IsTerminal(0) && term.IsTerminal(1) {
		if t, err := newTerminal(c); err == nil {
			return t
		}
	}
	return &pipe{c: c, in: bufio.NewReader(in)}
}

// pipe reads commands from a file or another program. It shows each one
// behind the prompt, so that what was printed reads like a session.
type pipe struct {
	c     *Console
	in    *bufio.Reader
	ahead chan answer // gets the line that is read ahead; nil: none is
}

func (p *pipe) Prompt() { p.c.printf("%s", Prompt) }

func (p *pipe) Line() (string, error) { return p.next() }

func (p *pipe) Echo(line string) { p.c.printf("%s\n", line) }

func (p *pipe) read() (string, error) {
	line, err := p.in.ReadString('\n')
	if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
		return "", err
	}
	return trimLine(line), nil
}

func (p *pipe) Close() error { return nil }
