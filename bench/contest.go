package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
	"vionet/bench/peer"
	"vionet/bench/turns"
)

// contest is one cell of a table for two contestants.
type contest struct {
	cell
	rivals [2]rival
	vionet string // the binary
}

// starters start the two contestants.
func (c contest) starters() (both []turns.Starter[peer.Sample]) {
	for _, who := range c.rivals {
		both = append(both, func(ctx context.Context, dir string) (turns.Contestant[peer.Sample], error) {
			p, err := c.startPair(ctx, dir, who)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", who.name, err)
			}
			return p, nil
		})
	}
	return both
}

// circulating is the command that makes a host send 256 frames, which then go
// round and round.
const circulating = "start tx_first 8"

// startPair starts a host and its guest, lets them settle and stops them.
func (c contest) startPair(ctx context.Context, dir string, who rival) (_ *peer.Group, err error) {
	p := &peer.Group{Name: who.name}
	defer func() {
		if err != nil {
			p.Kill()
		}
	}()
	host, err := p.Start(ctx, filepath.Join(dir, who.name+"-host.log"), 0, c.hostCommand(dir, who))
	if err != nil {
		return nil, err
	}
	p.Count = host.Counter(0, c.counter)
	if err := host.Ready(); err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	if !c.circulate {
		if err := host.Send("start"); err != nil {
			return nil, err
		}
	}
	if _, err := p.Start(ctx, filepath.Join(dir, who.name+"-guest.log"), 1, c.guestCommand(dir, who)); err != nil {
		return nil, err
	}
	if c.circulate {
		if err := turns.Sleep(ctx, 2*time.Second); err != nil {
			return nil, err
		}
		if err := host.Send(circulating); err != nil {
			return nil, err
		}
	}
	return p, p.Settle(ctx)
}
