package testpmd

import (
	"errors"
	"fmt"
	"slices"

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
	dirs   []engine.Direction
	filter engine.Filter
}

const allPorts = -1

// wants reports whether bursts of the port in that direction are looked at.
func (s *selection) wants(d engine.Direction, port int) bool {
	return (s.port == allPorts || s.port == port) && slices.Contains(s.dirs, d)
}

var errNoSuchPort = errors.New("no such port")

// parseSelection reads the words behind the name of the file.
func (c *Console) parseSelection(words []string) (selection, error) {
	s := selection{port: allPorts, dirs: []engine.Direction{engine.Rx, engine.Tx}}
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
				s.dirs = []engine.Direction{d}
				words = words[1:]
				break
			}
		}
	}
	if len(words) > 1 && words[0] == "filter" {
		words = words[1:]
	}
	var err error
	s.filter, err = engine.ParseFilter(words)
	return s, err
}

func (c *Console) captureStart(a args) {
	if c.capture != nil {
		c.errorf("Capture to %s already started\n", c.capture.name)
		return
	}
	take, err := c.parseSelection(a[3:])
	if err != nil {
		c.errorf("Capture not started: %v\n", err)
		return
	}
	rec, err := startRecorder(a[2], take, c.captureSources(take))
	if err != nil {
		c.errorf("Capture not started: %v\n", err)
		return
	}
	c.capture = rec
	c.tap.Set(rec.view)
	c.printf("Capture to %s started\n", rec.name)
}

// captureSources lists the queues that there are to capture from.
func (c *Console) captureSources(take selection) []captureSource {
	var list []captureSource
	for _, p := range c.openPorts() {
		for _, d := range []engine.Direction{engine.Rx, engine.Tx} {
			queues := c.Options.RxQueues
			if d == engine.Tx {
				queues = c.Options.TxQueues
			}
			for q := range queues {
				if take.wants(d, p.id) {
					list = append(list, captureSource{d, p.id, q})
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
	if err := rec.stop(); err != nil {
		c.errorf("Capture: %v\n", err)
	}
	c.printf("%s", rec.text())
}
