package bench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// pair is the processes of a contestant: a host and its guest, or whatever else
// works together.
type pair struct {
	name      string
	processes []*process
	count     func() (uint64, error) // packets so far
	worker    *process               // whose processor time is measured; nil: nobody's
}

// start adds a process to the pair.
func (p *pair) start(ctx context.Context, log string, argv []string) (*process, error) {
	return p.startWith(ctx, log, 0, argv)
}

// startApart adds a process that has a network and mounts of its own.
func (p *pair) startApart(ctx context.Context, log string, argv []string) (*process, error) {
	return p.startWith(ctx, log, apart, argv)
}

func (p *pair) startWith(ctx context.Context, log string, flags uintptr, argv []string) (*process, error) {
	proc, err := start(ctx, log, flags, argv)
	if err == nil {
		p.processes = append(p.processes, proc)
	}
	return proc, err
}

// settle lets the processes connect and warm up, and stops them.
func (p *pair) settle(ctx context.Context) error {
	if err := sleep(ctx, settling); err != nil {
		return err
	}
	for _, proc := range p.processes {
		if err := proc.alive(); err != nil {
			return err
		}
	}
	return p.pause()
}

func (p *pair) pause() error  { return p.signal(syscall.SIGSTOP) }
func (p *pair) resume() error { return p.signal(syscall.SIGCONT) }

func (p *pair) signal(s syscall.Signal) error {
	var errs []error
	for _, proc := range p.processes {
		errs = append(errs, proc.signal(s))
	}
	return errors.Join(errs...)
}

func (p *pair) kill() {
	p.signal(syscall.SIGKILL)
	for _, proc := range p.processes {
		<-proc.done
	}
}

// settling is the time that processes get to connect and to warm up.
const settling = 2 * time.Second

// warmUp is the time between letting a pair run and the first count.
const warmUp = 50 * time.Millisecond

// measure lets the pair run for a window.
func (p *pair) measure(ctx context.Context, window time.Duration) (s sample, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
		}
	}()
	if err := p.resume(); err != nil {
		return s, err
	}
	defer p.pause()
	if err := sleep(ctx, warmUp); err != nil {
		return s, err
	}
	before, err := p.look()
	if err != nil {
		return s, err
	}
	if err := sleep(ctx, window); err != nil {
		return s, err
	}
	after, err := p.look()
	if err != nil {
		return s, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	return sample{
		rate: float64(after.packets-before.packets) / seconds,
		cpu:  (after.cpu - before.cpu).Seconds() / seconds,
	}, nil
}

// reading is what a pair has done up to a moment.
type reading struct {
	packets uint64
	cpu     time.Duration
	at      time.Time
}

func (p *pair) look() (r reading, err error) {
	if r.packets, err = p.count(); err != nil {
		return r, err
	}
	r.at = time.Now()
	if p.worker != nil {
		r.cpu, err = p.worker.cpuTime()
	}
	return r, err
}
