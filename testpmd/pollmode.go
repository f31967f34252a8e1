package testpmd

import (
	"fmt"
	"time"

	"vionet/port"
)

// PollMode is what a forwarding core does while nothing moves.
type PollMode string

// Poll modes.
const (
	PollBusy      PollMode = "busy"      // polls on
	PollAdaptive  PollMode = "adaptive"  // polls for a while, then sleeps
	PollInterrupt PollMode = "interrupt" // sleeps at once
)

// PollModes are their names, in the order of what they cost.
var PollModes = []string{string(PollBusy), string(PollAdaptive), string(PollInterrupt)}

// DefaultSpin is about what a sleep and a wake-up take together.
const DefaultSpin = 50 * time.Microsecond

// maxSpinMicros is a second.
const maxSpinMicros = 1_000_000

func pollModeCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set poll-mode (busy|adaptive|interrupt)", help: "Choose what forwarding cores do while nothing moves, from the next start on: poll on, poll for a while and then sleep, or sleep at once. Ports have interrupts for that when they were started in another mode than busy.", run: func(c *Console, a args) { c.setPollMode(PollMode(a[2]), c.Options.Spin) }},
		{section: configSection, pattern: "set poll-mode adaptive spin (microseconds)", help: "The same, with the time without a packet before a sleep.", run: (*Console).setSpin},
	}
}

func (c *Console) setSpin(a args) {
	n := a.num(4)
	if n > maxSpinMicros {
		c.errorf("spin: %d > %d (maximum microseconds)  ignored\n", n, maxSpinMicros)
		return
	}
	c.setPollMode(PollAdaptive, time.Duration(n)*time.Microsecond)
}

func (c *Console) setPollMode(mode PollMode, spin time.Duration) {
	c.Options.PollMode, c.Options.Spin = mode, spin
	c.printf("Set poll-mode %s\n", c.Options.pollText())
	for _, p := range c.openPorts() {
		if p.started && c.Options.sleeps() && !p.applied.RxInterrupts {
			c.errorf("Port %d was started without interrupts: stop it and start it again, or it is polled\n", p.id)
		}
	}
}

// sleeps reports whether forwarding cores may sleep.
func (o Options) sleeps() bool { return o.PollMode != PollBusy }

// spin is how long a forwarding core polls without a packet before it sleeps.
func (o Options) spin() time.Duration {
	if o.PollMode == PollInterrupt {
		return 0
	}
	return o.Spin
}

// pollText is the poll mode for people.
func (o Options) pollText() string {
	if o.PollMode == PollAdaptive {
		return fmt.Sprintf("%s, spin %dus", o.PollMode, o.Spin.Microseconds())
	}
	return string(o.PollMode)
}

// newPoller makes what the worker sleeps on that drives these links in the
// current mode; nil, after a line that says why, when it has to poll.
func (c *Console) newPoller(core Core, links []link) *port.Poller {
	if !c.Options.sleeps() || len(links) == 0 {
		return nil
	}
	alarms, err := c.alarms(links)
	var p *port.Poller
	if err == nil {
		spin := c.Options.spin()
		if c.mode.Generates {
			spin = 0 // what it makes meanwhile has no room
		}
		p, err = port.NewPoller(spin, alarms...)
	}
	if err != nil {
		c.errorf("lcore %d polls all the time, in spite of poll-mode %s: %v\n", core.ID, c.Options.PollMode, err)
	}
	return p
}

// alarms are those of the queues that bring something to do in the current mode:
// packets that come, or room for those that it makes.
func (c *Console) alarms(links []link) ([]port.Alarm, error) {
	receives, _ := ends(c.mode)
	var alarms []port.Alarm
	for _, l := range links {
		if receives {
			p := c.ports[l.rxPort]
			a, err := p.alarm(p.RxQueue(l.rxQueue))
			if err != nil {
				return nil, err
			}
			alarms = append(alarms, a)
		}
		if c.mode.Generates {
			p := c.ports[l.txPort]
			a, err := p.alarm(p.TxQueue(l.txQueue))
			if err != nil {
				return nil, err
			}
			alarms = append(alarms, a)
		}
	}
	return alarms, nil
}

// alarm is that of one of the port's queues.
func (p *portState) alarm(queue any) (port.Alarm, error) {
	if !p.applied.RxInterrupts {
		return nil, fmt.Errorf("port %d was started without interrupts: stop it and start it again", p.id)
	}
	a, err := port.AlarmOf(queue)
	if err != nil {
		return nil, fmt.Errorf("port %d (%s): %w", p.id, p.Name(), err)
	}
	return a, nil
}
