package vhost

import (
	"errors"
	"fmt"
	"slices"

	"vionet/mbuf"
	"vionet/port"
)

// Map makes mem known, and what is added to it later; the back end gets it with
// the first SetupQueue after each reset. It fails, before anything is sent,
// when mem has more regions than a message can carry.
func (f *Frontend) Map(mem *mbuf.Memory) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.stopGrowth != nil {
		return f.wrap("share memory", fmt.Errorf("%w: it can be done once, before Close", port.ErrState))
	}
	stop := mem.OnGrow(f.MapMore, f.unmap)
	if err := f.mapRegions(mem.Regions()); err != nil {
		stop()
		return f.wrap("share memory", err)
	}
	f.stopGrowth = stop
	return nil
}

// MapMore makes more memory known, also while the device runs: when it returns
// without an error, the back end can use it. Map has memory that grows call it.
func (f *Frontend) MapMore(regions []mbuf.Region) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.mem
	err := f.mapRegions(slices.Concat(before, regions))
	if err == nil && f.connected() == nil {
		err = f.updateMemory()
	}
	if err == nil || errors.Is(err, ErrDisconnected) {
		return nil // the next back end gets it all
	}
	f.mem = before
	if undoErr := f.updateMemory(); undoErr != nil {
		err = fmt.Errorf("%w; and it keeps what it got: %w", err, undoErr)
	}
	return f.wrap("share more memory", err)
}

// unmap takes memory back that MapMore has made known. When it returns without
// an error, the back end has it no more.
func (f *Frontend) unmap(regions []mbuf.Region) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mem = slices.DeleteFunc(slices.Clone(f.mem), func(r mbuf.Region) bool {
		return slices.ContainsFunc(regions, func(other mbuf.Region) bool { return r.IOVA == other.IOVA })
	})
	if f.connected() != nil {
		return nil // nor has the next one
	}
	err := f.updateMemory()
	if errors.Is(err, ErrDisconnected) {
		return nil
	}
	return f.wrap("take memory back", err)
}

func (f *Frontend) mapRegions(regions []mbuf.Region) error {
	if len(regions) > f.peer.slots {
		return fmt.Errorf("%d regions of memory, and the vhost-user back end takes at most %d: use memory of one file, with virtual addresses (--iova-mode va)", len(regions), f.peer.slots)
	}
	f.mem = regions
	return nil
}

// updateMemory tells the back end of a change of the memory that it has.
func (f *Frontend) updateMemory() error {
	if f.peer.protocol.has(protocolMemSlots) && len(f.peer.added) > 0 {
		return f.shareRegions()
	}
	if !f.peer.tableSent {
		return nil
	}
	// No back end likes to lose its memory under a running ring. Transmit rings
	// stop before and start after the receive rings, for those that pass frames
	// on between them.
	var running []int
	for i := range slices.Backward(f.rings) {
		if f.peer.switchable() && f.rings[i].enabled {
			running = append(running, i)
			if err := f.enable(i, false); err != nil {
				return err
			}
		}
	}
	f.peer.tableSent = false
	err := f.shareMemory()
	f.peer.tableSent = true // if it was refused, the one before stands
	for _, i := range slices.Backward(running) {
		err = errors.Join(err, f.enable(i, true))
	}
	return err
}

// shareMemory gives the back end the memory, if it has not got it. Addresses in
// descriptors are those of a region's IOVA, addresses of rings those of this
// process.
func (f *Frontend) shareMemory() error {
	if len(f.mem) == 0 {
		return errors.New("no memory was mapped before the first queue")
	}
	if f.peer.protocol.has(protocolMemSlots) {
		return f.shareRegions()
	}
	if f.peer.tableSent {
		return nil
	}
	m := message{request: setMemTable}
	var fds []int
	for _, r := range f.mem {
		m.table = append(m.table, wireRegion(r))
		fds = append(fds, r.FD)
	}
	err := f.peer.channel.tell(m, fds...)
	f.peer.tableSent = err == nil
	return err
}

// shareRegions takes from the back end, region by region, what is no longer
// part of the memory, and gives it what is new.
func (f *Frontend) shareRegions() error {
	p := f.peer
	has := func(regions []mbuf.Region, r mbuf.Region) bool {
		return slices.ContainsFunc(regions, func(o mbuf.Region) bool {
			return o.IOVA == r.IOVA && len(o.Bytes) == len(r.Bytes) && o.FD == r.FD
		})
	}
	for i := len(p.added) - 1; i >= 0; i-- {
		if r := p.added[i]; !has(f.mem, r) {
			m := message{request: remMemReg, table: []memRegion{wireRegion(r)}}
			if err := p.channel.tell(m); err != nil {
				return err
			}
			p.added = slices.Delete(p.added, i, i+1)
		}
	}
	for _, r := range f.mem {
		if !has(p.added, r) {
			m := message{request: addMemReg, table: []memRegion{wireRegion(r)}}
			if err := p.channel.tell(m, r.FD); err != nil {
				return err
			}
			p.added = append(p.added, r)
		}
	}
	return nil
}

func wireRegion(r mbuf.Region) memRegion {
	return memRegion{guest: r.IOVA, size: uint64(len(r.Bytes)), user: uint64(r.Addr()), offset: uint64(r.Offset)}
}
