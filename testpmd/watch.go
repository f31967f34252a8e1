package testpmd

import (
	"math"
	"strconv"
	"strings"
	"time"
)

func watchCommands() []*command {
	return []*command{
		{section: displaySection, pattern: "watch (seconds) (command...)", help: "Repeat a command until somebody presses Enter or the next line comes: watch SECONDS [COUNT] COMMAND.\nCOUNT is how often; rates are those since the time before.", run: (*Console).watchCommand},
	}
}

// Bounds of the time between two runs of a command, in seconds.
const (
	minWatch = 0.1
	maxWatch = 24 * 60 * 60
)

func isSeconds(word string) bool {
	n, err := strconv.ParseFloat(word, 64)
	return err == nil && n >= minWatch && n <= maxWatch
}

// watched is a command that is run again and again.
type watched struct {
	period time.Duration
	count  uint64 // how often; 0: until somebody ends it
	words  args
	run    func(*Console, args)
}

func (c *Console) watchCommand(a args) {
	seconds, _ := strconv.ParseFloat(a[1], 64)
	w := watched{period: time.Duration(seconds * float64(time.Second)), words: a[2:]}
	if n, ok := parseNumber(a[2]); ok {
		if n == 0 || n > math.MaxUint32 || len(a) == 3 {
			c.errorf("%s\n", badArgs)
			return
		}
		w.count, w.words = n, a[3:]
	}
	cmd, answer := find(c.commands, w.words)
	switch {
	case cmd == nil:
		c.errorf("%s\n", answer)
	case w.words[0] == "watch":
		c.errorf("watch: one at a time\n")
	case w.count == 0 && c.lines == nil:
		c.errorf("watch: nobody is there to end it: say how often, as in \"watch %s 10 %s\"\n", a[1], strings.Join(w.words, " "))
	default:
		w.run = cmd.run
		c.watchUntil(w)
	}
}

// watchUntil repeats the command until it was run often enough, or somebody or
// something ends it.
func (c *Console) watchUntil(w watched) {
	interrupted := make(chan struct{})
	c.setInterrupt(interrupted)
	defer c.setInterrupt(nil)
	over := func() bool {
		select {
		case <-interrupted:
			return true
		case <-c.ended:
			return true
		default:
			return c.quitting || len(c.faults) > 0
		}
	}
	keys := c.keys(w)
	for n, next := uint64(1), time.Now(); ; n++ {
		c.drawOver()
		w.run(c, w.words)
		if n == w.count || over() {
			return
		}
		next = next.Add(w.period)
		for wait := time.Until(next); wait > 0; wait = time.Until(next) {
			if over() || keys(min(wait, watchSlice)) {
				return
			}
		}
	}
}

// watchSlice is how long the end of a watch may go unnoticed.
const watchSlice = 100 * time.Millisecond

// keys gives a function that waits that long for somebody to press Enter, and
// reports whether somebody did. A command that is run a number of times is not
// ended by the next line of a script.
func (c *Console) keys(w watched) func(time.Duration) bool {
	_, isTerminal := c.lines.(*terminal)
	if c.lines == nil || w.count > 0 && !isTerminal {
		return func(d time.Duration) bool { time.Sleep(d); return false }
	}
	return c.lines.Enter
}

// drawOver makes a terminal show the next run in the place of the last.
func (c *Console) drawOver() {
	if _, ok := c.lines.(*terminal); ok {
		c.printf("%s", clearScreen)
	}
}

func (c *Console) setInterrupt(ch chan struct{}) {
	c.mu.Lock()
	c.interrupted = ch
	c.mu.Unlock()
}

// Interrupt ends the watch that runs and reports whether one did: what Ctrl-C is
// for, before it ends the program. Any goroutine may call it.
func (c *Console) Interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted == nil {
		return false
	}
	close(c.interrupted)
	c.interrupted = nil
	return true
}
