package bench

import (
	"context"
	"fmt"
	"path/filepath"
)

// contest is one cell of a table for two contestants.
type contest struct {
	cell
	rivals [2]rival
	vionet string // the binary
}

// starters start the two contestants.
func (c contest) starters() (both []starter[sample]) {
	for _, who := range c.rivals {
		both = append(both, func(ctx context.Context, dir string) (contestant[sample], error) {
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
func (c contest) startPair(ctx context.Context, dir string, who rival) (_ *pair, err error) {
	p := &pair{name: who.name}
	defer func() {
		if err != nil {
			p.kill()
		}
	}()
	host, err := p.start(ctx, filepath.Join(dir, who.name+"-host.log"), c.hostCommand(dir, who))
	if err != nil {
		return nil, err
	}
	p.count = host.counter(0, c.counter)
	if err := host.ready(); err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	if !c.circulate {
		if err := host.send("start"); err != nil {
			return nil, err
		}
	}
	if _, err := p.start(ctx, filepath.Join(dir, who.name+"-guest.log"), c.guestCommand(dir, who)); err != nil {
		return nil, err
	}
	if c.circulate {
		if err := sleep(ctx, settling); err != nil {
			return nil, err
		}
		if err := host.send(circulating); err != nil {
			return nil, err
		}
	}
	return p, p.settle(ctx)
}
