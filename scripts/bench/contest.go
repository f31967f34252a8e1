package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// contest runs one cell. Each contestant has processes of its own; all of them
// stay alive, stopped, and those of one contestant at a time are let run for a
// window. On a shared machine the rates drift by a factor of three from one
// minute to the next; the ratio of two neighbouring windows does not.
type contest struct {
	cell
	contestants [2]contestant
	vionet      string // the binary
	windows     int
	window      time.Duration
}

// result is what the two contestants reached.
type result struct {
	rates  [2][]float64 // packets a second, window by window
	ratios []float64    // the second to the first, pair by pair
}

// settle is the time that a guest gets to connect and to warm up.
const settle = 2 * time.Second

func (c contest) run(ctx context.Context) (result, error) {
	dir, err := os.MkdirTemp("", "vionet-bench-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	var res result
	var pairs [2]*pair
	for i, who := range c.contestants {
		p, err := c.startPair(ctx, dir, who)
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", who.name, err)
		}
		defer p.kill()
		pairs[i] = p
	}
	for i := range c.windows {
		order := []int{0, 1}
		if i%2 == 1 {
			order = []int{1, 0}
		}
		var rate [2]float64
		for _, k := range order {
			if rate[k], err = pairs[k].measure(ctx, c.window); err != nil {
				return res, fmt.Errorf("%s: %w", pairs[k].name, err)
			}
			res.rates[k] = append(res.rates[k], rate[k])
		}
		if rate[0] > 0 {
			res.ratios = append(res.ratios, rate[1]/rate[0])
		}
	}
	return res, nil
}

// circulating is the command that makes a host send 256 frames, which then go
// round and round.
const circulating = "start tx_first 8"

// startPair starts a host and its guest, lets them settle and stops them.
func (c contest) startPair(ctx context.Context, dir string, who contestant) (_ *pair, err error) {
	p := &pair{name: who.name, counter: c.counter}
	defer func() {
		if err != nil {
			p.kill()
		}
	}()
	host, err := p.start(ctx, filepath.Join(dir, who.name+"-host.log"), c.hostCommand(dir, who))
	if err != nil {
		return nil, err
	}
	if err := host.waitFor("testpmd> ", 20*time.Second); err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	if !c.circulate {
		if err := host.send("start"); err != nil {
			return nil, err
		}
	}
	guest, err := p.start(ctx, filepath.Join(dir, who.name+"-guest.log"), c.guestCommand(dir, who))
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	if c.circulate {
		if err := host.send(circulating); err != nil {
			return nil, err
		}
		if err := sleep(ctx, settle/4); err != nil {
			return nil, err
		}
	}
	if err := guest.alive(); err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	return p, p.pause()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
