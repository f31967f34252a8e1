package testpmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vionet/capture"
	"vionet/testpmd/engine"
)

func captureCommands() []*command {
	return []*command{
		{section: controlSection, pattern: "capture start (name)", help: "Write all packets of all ports into a pcapng file, with an interface for each queue and direction.", run: (*Console).captureStart},
		{section: controlSection, pattern: "capture start (name) (selection...)", help: "The same of some packets: [port N] [rx|tx] [filter " + engine.FilterSyntax + "].", run: (*Console).captureStart},
		{section: controlSection, pattern: "capture stop", help: "End the file. Packets are forwarded meanwhile as before.", run: func(c *Console, a args) { c.stopCapture() }},
	}
}

// selection is what a capture takes: everything, if nothing else was said.
type selection struct {
	port   int // or allPorts
	dirs   []capture.Direction
	words  string // of the filter
	filter engine.Filter
}

const allPorts = -1

// wants reports whether bursts of the queue are looked at.
func (s *selection) wants(from capture.Source) bool {
	return (s.port == allPorts || s.port == from.Port) && slices.Contains(s.dirs, from.Dir)
}

// config is what a recorder is to take.
func (s *selection) config(sources []capture.Source) capture.Config {
	return capture.Config{
		WriterConfig: capture.WriterConfig{Application: "vionet testpmd", Filter: s.words},
		Sources:      sources, Take: s.wants, Match: s.filter.Match,
	}
}

var errNoSuchPort = errors.New("no such port")

// parseSelection reads the words behind the name of the file.
func (c *Console) parseSelection(words []string) (selection, error) {
	s := selection{port: allPorts, dirs: []capture.Direction{capture.Rx, capture.Tx}}
	if len(words) > 1 && words[0] == "port" {
		id, ok := parseNumber(words[1])
		if !ok || c.lookup(id) == nil {
			return s, fmt.Errorf("port %s: %w", words[1], errNoSuchPort)
		}
		s.port = int(id)
		words = words[2:]
	}
	if len(words) > 0 {
		for _, d := range s.dirs {
			if words[0] == d.String() {
				s.dirs = []capture.Direction{d}
				words = words[1:]
				break
			}
		}
	}
	if len(words) > 1 && words[0] == "filter" {
		words = words[1:]
	}
	var err error
	s.words = strings.Join(words, " ")
	s.filter, err = engine.ParseFilter(words)
	return s, err
}

func (c *Console) captureStart(a args) {
	if c.capture != nil {
		c.errorf("Capture to %s already started\n", c.capture.Name())
		return
	}
	take, err := c.parseSelection(a[3:])
	if err != nil {
		c.errorf("Capture not started: %v\n", err)
		return
	}
	rec, err := capture.Record(a[2], take.config(c.captureSources(take)))
	if err != nil {
		c.errorf("Capture not started: %v\n", err)
		return
	}
	c.capture = rec
	c.tap.Set(rec)
	c.printf("Capture to %s started\n", rec.Name())
}

// captureSources lists the queues that there are to capture from.
func (c *Console) captureSources(take selection) (list []capture.Source) {
	queues := map[capture.Direction]int{capture.Rx: c.Options.RxQueues, capture.Tx: c.Options.TxQueues}
	for _, p := range c.openPorts() {
		for _, d := range take.dirs {
			for q := range queues[d] {
				if from := (capture.Source{Dir: d, Port: p.id, Queue: q}); take.wants(from) {
					list = append(list, from)
				}
			}
		}
	}
	return list
}

// stopCapture ends the capture and says what it took.
func (c *Console) stopCapture() {
	rec := c.capture
	if rec == nil {
		c.errorf("Capture not started\n")
		return
	}
	c.tap.Set(nil)
	c.capture = nil
	if err := rec.Stop(); err != nil {
		c.errorf("Capture: %v\n", err)
	}
	c.printf("%s", captureText(rec))
}

// captureText is what statistics say of a capture; nil: nothing.
func captureText(rec *capture.Recorder) string {
	if rec == nil {
		return ""
	}
	written, dropped := rec.Counts()
	return fmt.Sprintf("  Capture to %s: %d packets, %d dropped\n", rec.Name(), written, dropped)
}
