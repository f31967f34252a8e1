package vhost

import (
	"fmt"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// frontendRing is what the front end keeps of one virtqueue.
type frontendRing struct {
	kick, call *eventfd // nil before makeEventfds
	started    bool     // the back end knows its addresses
	enabled    bool
}

func (r *frontendRing) close() {
	r.kick.close()
	r.call.close()
}

// makeEventfds makes the two descriptors of every virtqueue. The same ones
// serve over any number of resets.
func (f *Frontend) makeEventfds() (err error) {
	for i := range f.rings {
		if f.rings[i].kick, err = newEventfd(); err != nil {
			return err
		}
		if f.rings[i].call, err = newEventfd(); err != nil {
			return err
		}
	}
	return nil
}

// Map makes mem known; the back end gets it with the first SetupQueue after
// each reset. It fails, before anything is sent, when mem has more regions
// than a message can carry.
func (f *Frontend) Map(mem *mbuf.Memory) error {
	return f.mapRegions(mem.Regions())
}

func (f *Frontend) mapRegions(regions []mbuf.Region) error {
	if len(regions) > maxRegions {
		return f.wrap("share memory", fmt.Errorf("%d regions of memory, and vhost-user carries at most %d: use memory of one file, with virtual addresses (--iova-mode va)", len(regions), maxRegions))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mem = regions
	return f.wrap("share memory", f.connected())
}

// sendMemTable shares the memory. Addresses in descriptors are those of the
// region's IOVA, addresses of rings those of this process.
func (f *Frontend) sendMemTable() error {
	if f.sentMem {
		return nil
	}
	if len(f.mem) == 0 {
		return fmt.Errorf("no memory was mapped before the first queue")
	}
	m := message{request: setMemTable}
	var fds []int
	for _, r := range f.mem {
		m.table = append(m.table, memRegion{
			guest: r.IOVA, size: uint64(len(r.Bytes)),
			user: uint64(r.Addr()), offset: uint64(r.Offset),
		})
		fds = append(fds, r.FD)
	}
	err := f.channel.tell(m, fds...)
	f.sentMem = err == nil
	return err
}

// MaxPairs is the configured number of queue pairs; the back end has them.
func (f *Frontend) MaxPairs() int { return f.cfg.Queues }

// QueueSize is the configured size for the queues that there are, 0 for
// others.
func (f *Frontend) QueueSize(index int) (int, error) {
	if index < 0 || index >= len(f.rings) {
		return 0, nil
	}
	return f.cfg.QueueSize, nil
}

// SetupQueue tells the back end where a virtqueue is. The first pair is
// enabled with DRIVER_OK, others with EnablePairs.
func (f *Frontend) SetupQueue(q port.QueueSetup) (port.Kicker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.setupQueue(q); err != nil {
		return nil, f.wrap(fmt.Sprintf("set up queue %d", q.Index), err)
	}
	return f.rings[q.Index].kick, nil
}

func (f *Frontend) setupQueue(q port.QueueSetup) error {
	if err := f.connected(); err != nil {
		return err
	}
	switch {
	case q.Index < 0 || q.Index >= len(f.rings):
		return fmt.Errorf("there are %d queues: raise queues=", len(f.rings))
	case q.Size < 1 || q.Size > f.cfg.QueueSize || q.Size&(q.Size-1) != 0:
		return fmt.Errorf("%d descriptors: must be a power of two, up to queue_size=%d", q.Size, f.cfg.QueueSize)
	case !f.featuresOK || f.status.Has(virtio.StatusDriverOK) || f.rings[q.Index].started:
		return fmt.Errorf("%w: it must come once after the features, and before DRIVER_OK", port.ErrState)
	}
	if err := f.sendMemTable(); err != nil {
		return err
	}
	ring, index := &f.rings[q.Index], uint32(q.Index)
	steps := []struct {
		m   message
		fds []int
	}{
		{m: message{request: setVringNum, state: vringState{index, uint32(q.Size)}}},
		{m: message{request: setVringBase, state: vringState{index, uint32(q.Base)}}},
		{m: message{request: setVringAddr, addr: vringAddr{
			index: index,
			desc:  uint64(q.Desc.Addr()),
			avail: uint64(q.Avail.Addr()),
			used:  uint64(q.Used.Addr()),
		}}},
		{m: message{request: setVringKick, u64: uint64(index)}, fds: []int{int(ring.kick.fd.Load())}},
	}
	ring.started = true // from here on a reset must stop it
	ring.enabled = !f.offered.Has(virtio.VhostUserProtocolFeatures)
	for _, s := range steps {
		if err := f.channel.tell(s.m, s.fds...); err != nil {
			return err
		}
	}
	return nil
}

// EnablePairs switches the first n queue pairs on and the others off.
func (f *Frontend) EnablePairs(n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrap(fmt.Sprintf("enable %d queue pairs", n), f.enablePairs(n))
}

func (f *Frontend) enablePairs(n int) error {
	if err := f.connected(); err != nil {
		return err
	}
	if n < 1 || 2*n > len(f.rings) {
		return fmt.Errorf("%w: there are %d: raise queues=", port.ErrInvalid, len(f.rings)/2)
	}
	for i := range f.rings {
		if i < 2*n && !f.rings[i].started {
			return fmt.Errorf("%w: queue %d was not set up", port.ErrState, i)
		}
	}
	for i := range f.rings {
		if err := f.enable(i, i < 2*n); err != nil {
			return err
		}
	}
	return nil
}

// enable switches a ring on or off, if it is not so already. Without protocol
// features a ring is on from its start to its end.
func (f *Frontend) enable(i int, on bool) error {
	ring := &f.rings[i]
	if !ring.started || ring.enabled == on {
		return nil
	}
	if !f.offered.Has(virtio.VhostUserProtocolFeatures) {
		return fmt.Errorf("%w: the back end cannot switch single queues off", port.ErrNotSupported)
	}
	var num uint32
	if on {
		num = 1
	}
	err := f.channel.tell(message{request: setVringEnable, state: vringState{uint32(i), num}})
	if err == nil {
		ring.enabled = on
	}
	return err
}

// stopRings disables every ring, and then waits until the back end has let go
// of each.
func (f *Frontend) stopRings() error {
	if f.offered.Has(virtio.VhostUserProtocolFeatures) {
		for i := range f.rings {
			if err := f.enable(i, false); err != nil {
				return err
			}
		}
	}
	for i := range f.rings {
		ring := &f.rings[i]
		if !ring.started {
			continue
		}
		if _, err := f.channel.ask(message{request: getVringBase, state: vringState{index: uint32(i)}}); err != nil {
			return err
		}
		ring.started, ring.enabled = false, false
	}
	return nil
}
