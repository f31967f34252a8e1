package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"vionet/bench"
)

// benchProgress shows how far a run is: a bar with the time left on a terminal, a line
// for each cell elsewhere.
type benchProgress struct {
	out      io.Writer
	terminal bool
	bar      *progressbar.ProgressBar // on a terminal, once there is something to show
	begin    time.Time
}

func newBenchProgress(out io.Writer) *benchProgress {
	f, ok := out.(*os.File)
	return &benchProgress{out: out, terminal: ok && term.IsTerminal(int(f.Fd())), begin: time.Now()}
}

// progress is told by a run how far it is.
func (p *benchProgress) progress(now bench.Progress) {
	switch {
	case now.Total == 0: // it is not known
		p.close()
		fmt.Fprintln(p.out, now.Cell)
	case p.terminal:
		if p.bar == nil {
			p.bar = progressbar.NewOptions(now.Total, progressbar.OptionSetWriter(p.out), progressbar.OptionShowCount(), progressbar.OptionSetElapsedTime(true),
				progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish())
		}
		p.bar.Describe(now.Cell)
		_ = p.bar.Set(now.Done) // a bar that can't be drawn is not worth an end
	case now.Finished:
		fmt.Fprintf(p.out, "%4d of %d windows, %s left: %s\n", now.Done, now.Total, p.left(now), now.Cell)
	}
}

// left is about how long the rest takes.
func (p *benchProgress) left(now bench.Progress) time.Duration {
	if now.Done == 0 {
		return 0
	}
	passed := time.Since(p.begin)
	return (passed * time.Duration(now.Total-now.Done) / time.Duration(now.Done)).Round(time.Second)
}

// warn prints what makes the run worse.
func (p *benchProgress) warn(words string) {
	p.close()
	fmt.Fprintf(p.out, "vionet: bench: %s\n", words)
}

// close takes the bar away.
func (p *benchProgress) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
