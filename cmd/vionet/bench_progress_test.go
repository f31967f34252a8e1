package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"vionet/bench"
)

// Off a terminal each cell has a line, with the time that is left at the pace so far.
func TestProgressInLines(t *testing.T) {
	var out bytes.Buffer
	p := newBenchProgress(&out)
	p.begin = time.Now().Add(-10 * time.Second)
	p.progress(bench.Progress{Done: 5, Total: 40, Cell: "first"})
	p.warn("it is late")
	p.progress(bench.Progress{Done: 10, Total: 40, Cell: "first", Finished: true})
	p.close()
	if got, want := out.String(), "vionet: bench: it is late\n  10 of 40 windows, 30s left: first\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// On a terminal there is a bar.
func TestProgressOnATerminal(t *testing.T) {
	master, terminal, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	seen := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // ends with an error when the terminal is closed
		seen <- string(b)
	}()
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	p := newBenchProgress(terminal)
	p.progress(bench.Progress{Done: 10, Total: 40, Cell: "first"})
	p.progress(bench.Progress{Done: 20, Total: 40, Cell: "second"})
	p.close()
	terminal.Close()
	text := <-seen
	for _, words := range []string{"second", "50%", "20/40"} {
		if !strings.Contains(text, words) {
			t.Errorf("%q is not on the terminal: %q", words, text)
		}
	}
	if strings.Contains(text, "\n") {
		t.Errorf("the bar leaves lines: %q", text)
	}
}
