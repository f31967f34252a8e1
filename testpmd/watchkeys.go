package testpmd

import (
	"bytes"
	"time"

	"golang.org/x/sys/unix"
)

// answer is a line, or why there is none.
type answer struct {
	line string
	err  error
}

// Enter waits for the next line. That stays the next one for Line.
func (p *pipe) Enter(limit time.Duration) bool {
	if p.ahead == nil {
		ahead := make(chan answer, 1)
		go func() {
			line, err := p.read()
			ahead <- answer{line, err}
		}()
		p.ahead = ahead
	}
	select {
	case a := <-p.ahead:
		p.ahead <- a
		return true
	case <-time.After(limit):
		return false
	}
}

// next gives the line that was read ahead, or reads one.
func (p *pipe) next() (string, error) {
	if p.ahead == nil {
		return p.read()
	}
	a := <-p.ahead
	p.ahead = nil
	return a.line, a.err
}

// Enter waits for the Enter key, or for the end of the terminal. What else was
// typed stays, the beginning of the next line.
func (t *terminal) Enter(limit time.Duration) bool {
	keys := &t.editor.keys
	if !bytes.ContainsAny(keys.ahead, "\r\n") {
		fds := []unix.PollFd{{Fd: stdin, Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(limit.Milliseconds())); n == 0 || err != nil {
			return false
		}
		if keys.fill() != nil {
			return true
		}
	}
	at := bytes.IndexAny(keys.ahead, "\r\n")
	if at == 0 {
		keys.ahead = keys.ahead[1:] // the key alone makes no line
	}
	return at >= 0
}
