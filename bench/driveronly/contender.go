package driveronly

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"vionet/bench/peer"
	"vionet/bench/turns"
)

// Where is what every measurement needs of the machine.
type Where struct {
	Vionet      string // the binary
	Front, Back int    // processors
	GHz         float64
	Plan        turns.Plan
}

// Sample is what a front end did in a window.
type Sample struct {
	Cost float64 // nanoseconds a packet
	Idle float64 // share of the time in which the back end had nothing to do
}

func (s Sample) cost() float64 { return s.Cost }
func (s Sample) idle() float64 { return s.Idle }

// contender is a front end and its back end.
type contender struct {
	*peer.Group
	back  *peer.Process
	looks [2]look // the last two
}

// look is what the back end has done up to a moment.
type look struct {
	completed uint64
	idle      time.Duration
	first     time.Duration // when the first was completed, by the machine's clock; 0: none was
}

// settle is how long a front end may take until it has moved what the back end needs.
const settle = 10 * time.Second

// front gives the command line of a front end that connects to socket.
type front func(w Where, socket string) []string

// start starts a back end and a front end, waits until all buffers have been primed,
// and stops both.
func (w Where) start(ctx context.Context, dir, name string, command front) (_ turns.Contestant[Sample], err error) {
	c := &contender{Group: &peer.Group{Name: name}}
	defer func() {
		if err != nil {
			c.Kill()
		}
	}()
	socket := filepath.Join(dir, name+".sock")
	c.back, err = c.Start(ctx, filepath.Join(dir, name+"-back.log"), w.Back,
		[]string{w.Vionet, "bench", BackendCommand, "--socket", socket})
	if err != nil {
		return nil, err
	}
	if err := c.back.Ready(); err != nil {
		return nil, err
	}
	if _, err := c.Start(ctx, filepath.Join(dir, name+"-front.log"), w.Front, command(w, socket)); err != nil {
		return nil, err
	}
	c.Count, c.Busy = c.count, c.Processes
	for begin := time.Now(); ; {
		if err := turns.Sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
		if err := c.Explain(nil); err != nil {
			return nil, err
		}
		n, err := c.count()
		if err != nil {
			return nil, c.Explain(err)
		}
		if n > primed {
			return c, c.Pause()
		}
		if time.Since(begin) > settle {
			return nil, fmt.Errorf("%s: it moved %d packets in %v", name, n, settle)
		}
	}
}

var lookAnswer = regexp.MustCompile(`(completed \d+ idle \d+ first \d+)`)

func (c *contender) count() (uint64, error) {
	answer, err := c.back.Ask("look", lookAnswer)
	if err != nil {
		return 0, err
	}
	l, err := parseLook(answer)
	c.looks = [2]look{c.looks[1], l}
	return l.completed, err
}

func parseLook(answer string) (l look, err error) {
	_, err = fmt.Sscanf(answer, "completed %d idle %d first %d", &l.completed, &l.idle, &l.first)
	return l, err
}

// Measure lets the two run for a window.
func (c *contender) Measure(ctx context.Context, window time.Duration) (Sample, error) {
	s, err := c.Group.Measure(ctx, window)
	if s.Rate == 0 {
		if err == nil {
			err = fmt.Errorf("%s: no packet moved in %v", c.Name, window)
		}
		return Sample{}, err
	}
	packets, idle := c.looks[1].completed-c.looks[0].completed, c.looks[1].idle-c.looks[0].idle
	return Sample{Cost: 1e9 / s.Rate, Idle: idle.Seconds() * s.Rate / float64(packets)}, err
}
