package testpmd

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestWatchCounts(t *testing.T) {
	b := startedBench(t, 1, nil)
	once := b.run("show config cores")
	if got, want := b.run("watch 0.1 3 show config cores"), strings.Repeat(once, 3); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWatchRefuses(t *testing.T) {
	b := startedBench(t, 1, nil)
	for line, want := range map[string]string{
		"watch 0 show config cores":             badArgs,
		"watch 0.01 show config cores":          badArgs,
		"watch 86401 show config cores":         badArgs,
		"watch NaN show config cores":           badArgs,
		"watch 1 0 show config cores":           badArgs,
		"watch 1 4294967296 show config cores":  badArgs,
		"watch 1 5":                             badArgs,
		"watch 1":                               badArgs,
		"watch 1 nonsense":                      notFound,
		"watch 1 show":                          badArgs,
		"watch 1 2 watch 1 2 show config cores": "watch: one at a time",
		"watch 1 show config cores":             "watch: nobody is there to end it: say how often, as in \"watch 1 10 show config cores\"",
	} {
		if got := b.run(line); got != want+"\n" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// From a pipe the next line ends a watch, and is run.
func TestWatchUntilTheNextLine(t *testing.T) {
	b := newBench(t, 1, nil)
	in := &slowReader{lines: []string{"watch 0.1 show config cores\n", "show config txpkts\n", "quit\n"}, pause: 250 * time.Millisecond}
	if err := b.Run(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	got := b.out.take()
	if n := strings.Count(got, "List of forwarding lcores"); n < 2 || n > 4 {
		t.Errorf("run %d times, want about 3", n)
	}
	if strings.Count(got, "testpmd> show config txpkts\nNumber of segments: 1\n") != 1 {
		t.Errorf("the line after is lost:\n%s", got)
	}
}

// slowReader gives line by line with pauses between.
type slowReader struct {
	lines []string
	pause time.Duration
	begun bool
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.begun {
		time.Sleep(r.pause)
	}
	r.begun = true
	line := r.lines[0]
	r.lines = r.lines[1:]
	return copy(b, line), nil
}

func TestInterruptEndsWatch(t *testing.T) {
	b := startedBench(t, 1, nil)
	if b.Interrupt() {
		t.Error("there was something to interrupt")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.run("watch 1 4294967295 show config cores")
	}()
	eventually(t, "the watch is interrupted", b.Interrupt)
	<-done
	if b.Interrupt() {
		t.Error("interrupted twice")
	}
}

func TestWatchEndsWithTheConsole(t *testing.T) {
	b := newBench(t, 1, nil)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(200*time.Millisecond, cancel)
	if err := b.Run(ctx, strings.NewReader("watch 60 100 show config cores\n")); err != nil {
		t.Error(err)
	}
}

// The rate between two shows of a watch is that of the time between them.
func TestWatchRates(t *testing.T) {
	b := startedBench(t, 1, func(c *Config) { c.Options.FlushRx = false })
	b.run("start tx_first")
	out := b.run("watch 0.2 3 show port stats 0")
	b.run("stop")
	if n := strings.Count(out, "Rx-pps:            0"); n != 1 {
		t.Errorf("%d of 3 shows without a rate, want the first alone:\n%s", n, out)
	}
}
