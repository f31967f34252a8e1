package mbuf

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Grow adds n buffers, also while ports use the pool. They lie in memory that
// is left over or, where that is too little, in memory added with
// Memory.Grow, which the devices of all ports have mapped by then. On an error
// the pool is as before. Caches keep their sizes.
func (p *Pool) Grow(n int) error {
	if n <= 0 {
		return fmt.Errorf("mbuf: pool %s cannot grow by %d buffers: must be more than 0", p.name, n)
	}
	if p.fixed {
		return fmt.Errorf("mbuf: pool %s cannot grow: its frames are those of a given area", p.name)
	}
	bufs, zones, err := p.carve(n)
	if errors.Is(err, ErrNoMemory) {
		if _, err := p.mem.grow(PoolMemory(p.mem.Mode(), n, p.room)); err != nil {
			return fmt.Errorf("mbuf: pool %s cannot grow by %d buffers: %w", p.name, n, err)
		}
		bufs, zones, err = p.carve(n)
	}
	if err != nil {
		return err
	}
	return p.adopt(bufs, zones)
}

// adopt makes new buffers part of the pool. The stack gets room for all
// buffers here, so that giving them back never allocates.
func (p *Pool) adopt(bufs []*Buf, zones []Zone) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		p.freeZones(zones)
		return fmt.Errorf("mbuf: pool %s: %w", p.name, os.ErrClosed)
	}
	p.total += len(bufs)
	p.free = slices.Grow(p.free, p.total-len(p.free))
	// Under the others: buffers used last are warm and go out first.
	p.free = slices.Insert(p.free, 0, bufs...)
	p.zones = append(p.zones, zones...)
	return nil
}
