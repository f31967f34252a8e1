package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Prompt is what a testpmd console, ours or DPDK's, says when it listens.
const Prompt = "testpmd> "

// patience bounds every wait for a word from a console, whatever the context
// allows.
const patience = time.Minute

// tail is how much of the dialogue an error shows, in bytes.
const tail = 3000

// Console is the test's end of a dialogue. It keeps all that the program said,
// without carriage returns, and a mark up to which Expect has read. Send,
// Write and Transcript may be called from any goroutine, Expect and Command
// from one at a time.
type Console struct {
	name   string
	in     io.Writer
	mirror io.Writer // may be nil

	mu    sync.Mutex
	said  []byte
	mark  int
	ended bool
	news  chan struct{} // closed, and replaced, when said or ended changes
}

// newConsole makes the console of a program that reads from in; mirror, when
// not nil, gets a copy of all that the program says.
func newConsole(name string, in, mirror io.Writer) *Console {
	return &Console{name: name, in: in, mirror: mirror, news: make(chan struct{})}
}

// pump takes what the program says until out ends. A terminal whose program
// has gone reports an error and not the end of a file: both are the end.
func (c *Console) pump(out io.Reader) {
	chunk := make([]byte, 4096)
	for {
		n, err := out.Read(chunk)
		c.hear(chunk[:n], err != nil)
		if err != nil {
			return
		}
	}
}

// hear takes one piece of output.
func (c *Console) hear(b []byte, ended bool) {
	if c.mirror != nil {
		_, _ = c.mirror.Write(b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, bytes.ReplaceAll(b, []byte("\r"), nil)...)
	c.ended = ended
	close(c.news)
	c.news = make(chan struct{})
}

// Write types b as it is; it makes a Console an io.Writer.
func (c *Console) Write(b []byte) (int, error) { return c.in.Write(b) }

// Send types one line.
func (c *Console) Send(line string) error {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return fmt.Errorf("%s: send %q: %w", c.name, line, err)
	}
	return nil
}

// Expect waits until the program says text, and gives all that it said since
// the last Expect, text included. It fails with the end of the dialogue when
// the context or a minute is over, or when the program ended without a match.
func (c *Console) Expect(ctx context.Context, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		said, found, ended, news := c.take(text)
		switch {
		case found:
			return said, nil
		case ended:
			return "", fmt.Errorf("%s ended before it said %q%s", c.name, text, c.last())
		}
		select {
		case <-news:
		case <-ctx.Done():
			return "", fmt.Errorf("%s did not say %q: %w%s", c.name, text, ctx.Err(), c.last())
		}
	}
}

// take moves the mark behind text if it has been said.
func (c *Console) take(text string) (said string, found, ended bool, news <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unread := c.said[c.mark:]
	at := bytes.Index(unread, []byte(text))
	if at < 0 {
		return "", false, c.ended, c.news
	}
	end := at + len(text)
	c.mark += end
	return string(unread[:end]), true, c.ended, c.news
}

// Command types one line and gives the answer: what the program said up to the
// next Prompt, without the prompt and without an echo of the line.
func (c *Console) Command(ctx context.Context, line string) (string, error) {
	if err := c.Send(line); err != nil {
		return "", err
	}
	answer, err := c.Expect(ctx, Prompt)
	if err != nil {
		return "", fmt.Errorf("after %q: %w", line, err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(answer, line+"\n"), Prompt), nil
}

// Transcript is all that the program said so far.
func (c *Console) Transcript() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.said)
}

// last is the end of the transcript in the form that errors show it.
func (c *Console) last() string {
	text := c.Transcript()
	if len(text) > tail {
		text = "…" + text[len(text)-tail:]
	}
	return "; it said:\n" + text
}
