package peer

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"vionet/bench/turns"
)

// Group is the processes of a contestant: a host and its guest, or whatever else works
// together. It is a contestant whose sample is a rate. One goroutine at a time may use it.
type Group struct {
	Name      string                 // for messages
	Processes []*Process             // all of them, to be stopped, let run and killed together
	Count     func() (uint64, error) // packets so far
	Worker    *Process               // whose processor time is sampled; nil: nobody's
	// Busy are the processes that have a processor each which they never leave:
	// a window in which one had less of it is disturbed.
	Busy []*Process
}

// Sample is what a group did in one window.
type Sample struct {
	Rate float64 // packets a second
	CPU  float64 // of one processor, what the worker of the group took
}

// Packets is the rate, for functions that take a value of each sample.
func (s Sample) Packets() float64 { return s.Rate }

// Processor is the share of a processor, for the same.
func (s Sample) Processor() float64 { return s.CPU }

// Start adds a process to the group, see Start.
func (g *Group) Start(ctx context.Context, log string, core int, argv []string) (*Process, error) {
	return g.add(Start(ctx, log, core, argv))
}

// StartApart adds a process that has a network and mounts of its own.
func (g *Group) StartApart(ctx context.Context, log string, core int, argv []string) (*Process, error) {
	return g.add(startWith(ctx, log, apart, core, argv))
}

func (g *Group) add(p *Process, err error) (*Process, error) {
	if err == nil {
		g.Processes = append(g.Processes, p)
	}
	return p, err
}

// Settle lets the processes connect and warm up, and stops them.
func (g *Group) Settle(ctx context.Context) error {
	if err := turns.Sleep(ctx, settling); err != nil {
		return err
	}
	for _, p := range g.Processes {
		if err := p.Alive(); err != nil {
			return err
		}
	}
	return g.Pause()
}

// Pause stops the processes.
func (g *Group) Pause() error { return g.signal(syscall.SIGSTOP) }

// Resume lets them run on.
func (g *Group) Resume() error { return g.signal(syscall.SIGCONT) }

func (g *Group) signal(s syscall.Signal) error {
	var errs []error
	for _, p := range g.Processes {
		errs = append(errs, p.Signal(s))
	}
	return errors.Join(errs...)
}

// Kill ends the processes.
func (g *Group) Kill() {
	g.signal(syscall.SIGKILL)
	for _, p := range g.Processes {
		<-p.Done
	}
}

// settling is the time that processes get to connect and to warm up.
const settling = 2 * time.Second

// WarmUp is the time between letting a group run and the first count.
const WarmUp = 50 * time.Millisecond

// Measure lets the group run for a window.
func (g *Group) Measure(ctx context.Context, window time.Duration) (s Sample, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", g.Name, err)
		}
	}()
	if err := g.Resume(); err != nil {
		return s, g.Explain(err)
	}
	defer g.Pause()
	if err := turns.Sleep(ctx, WarmUp); err != nil {
		return s, err
	}
	before, err := g.look()
	if err != nil {
		return s, err
	}
	if err := turns.Sleep(ctx, window); err != nil {
		return s, err
	}
	after, err := g.look()
	if err != nil {
		return s, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	s.Rate = float64(after.packets-before.packets) / seconds
	if g.Worker != nil {
		s.CPU = (after.worker - before.worker).Seconds() / seconds
	}
	return s, g.disturbance(before, after)
}

// Explain says of which process an error tells, if one has ended.
func (g *Group) Explain(err error) error {
	for _, p := range g.Processes {
		if dead := p.Alive(); dead != nil {
			return dead
		}
	}
	return err
}

// reading is what a group has done up to a moment.
type reading struct {
	packets uint64
	worker  time.Duration   // processor time
	busy    []time.Duration // of each busy process
	at      time.Time
}

func (g *Group) look() (r reading, err error) {
	if r.packets, err = g.Count(); err != nil {
		return r, g.Explain(err)
	}
	r.at = time.Now()
	if g.Worker != nil {
		if r.worker, err = g.Worker.CPUTime(); err != nil {
			return r, g.Explain(err)
		}
	}
	for _, p := range g.Busy {
		had, err := p.CPUTime()
		if err != nil {
			return r, g.Explain(err)
		}
		r.busy = append(r.busy, had)
	}
	return r, nil
}

// undisturbed is the share of its processor that a busy process has when nothing else
// wants it.
const undisturbed = 0.95

// disturbance is an error if a busy process did not have its processor to itself.
// Processes of this machine take it away, and where the kernel accounts for steal the
// hypervisor's, too.
func (g *Group) disturbance(before, after reading) error {
	for i, p := range g.Busy {
		share := float64(after.busy[i]-before.busy[i]) / float64(after.at.Sub(before.at))
		if share < undisturbed {
			return &turns.Disturbed{By: fmt.Sprintf("others: %s had %.0f %% of its processor", p.Program, 100*share)}
		}
	}
	return nil
}
