package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"vionet/bench/peer"
	"vionet/bench/turns"
	"vionet/driver"
	"vionet/vhost"
)

// wakeRate is frames a second: each finds a switch that has been idle for nearly a
// millisecond, which is longer than any mode spins.
const wakeRate = 1000

// wakeSize is the size of the frames in bytes.
const wakeSize = 60

// wakeModes are the rows: what the switch does while nothing moves.
var wakeModes = []string{"busy", "adaptive", "interrupt"}

// wakeEnds are who sleeps: a testpmd that sends back what comes to its only port.
// The probe is the other end, and polls.
var wakeEnds = []struct {
	name  string
	start func(ctx context.Context, c switching, dir, mode string) (*probe, error)
}{
	{"driver", probeDriver},
	{"port of the back end", probeBackEnd},
}

// Sleep prints how long the first frame after a pause takes there and back, in each
// poll mode.
func (s Settings) Sleep(ctx context.Context) error {
	restore, err := s.begin()
	if err != nil {
		return err
	}
	defer restore()
	s.printf("\n### First frame after a pause, µs\n\n")
	s.println("| who sleeps | mode | median | average | 99.9 % | max | lost |")
	s.println("|---|---|---|---|---|---|---|")
	for _, end := range wakeEnds {
		if !s.matches("sleep: " + end.name) {
			continue
		}
		var starters []turns.Starter[delays]
		for _, mode := range wakeModes {
			starters = append(starters, func(ctx context.Context, dir string) (turns.Contestant[delays], error) {
				return end.start(ctx, switching{vionet: s.Vionet}, dir, mode)
			})
		}
		r, err := turns.Compete(ctx, s.plan(), starters...)
		if err != nil {
			return fmt.Errorf("sleep: %s: %w", end.name, err)
		}
		for i, mode := range wakeModes {
			sum := overall(r.Samples[i])
			line := []string{end.name, mode}
			for _, d := range []time.Duration{sum.middle, sum.average, sum.late, sum.most} {
				line = append(line, fmt.Sprintf("%.1f", float64(d)/1e3))
			}
			s.printf("| %s | %d |\n", strings.Join(line, " | "), sum.lost)
		}
	}
	return nil
}

// echo is a testpmd that sends back what comes, and sleeps as the mode says.
func echo(mode, vdev string) part {
	return part{
		End: peer.Vionet, name: "echo-" + mode, core: switchCore, vdevs: []string{vdev},
		options: []string{"--port-topology=loop", "--poll-mode=" + mode},
	}
}

// probeDriver has the front end sleep.
func probeDriver(ctx context.Context, c switching, dir, mode string) (_ *probe, err error) {
	p, err := newProbe(wakeSize, wakeRate)
	defer p.closeOn(&err)
	if err != nil {
		return nil, err
	}
	path := peer.Socket(dir, mode, 0)
	if err := p.add(vhost.NewPort(vhost.PortConfig{Path: path, Packed: true})); err != nil {
		return nil, err
	}
	return p, p.startSwitch(ctx, c, dir, mode, echo(mode, frontEnd(0, path)+",packed_vq=1,event_idx=1"))
}

// probeBackEnd has the port of the back end sleep.
func probeBackEnd(ctx context.Context, c switching, dir, mode string) (_ *probe, err error) {
	p, err := newProbe(wakeSize, wakeRate)
	defer p.closeOn(&err)
	if err != nil {
		return nil, err
	}
	path := peer.Socket(dir, mode, 0)
	if err := p.startSwitch(ctx, c, dir, mode, echo(mode, backEnd(0, path))); err != nil {
		return nil, err
	}
	return p, p.dial(ctx, path, driver.Options{EventIdx: true})
}
