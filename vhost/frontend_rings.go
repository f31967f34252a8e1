package vhost

import (
	"fmt"
	"sync/atomic"

	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// frontendRing is what the front end keeps of one virtqueue.
type frontendRing struct {
	kick    *eventfd                     // nil before makeKicks
	call    atomic.Pointer[port.EventFD] // nil before makeCalls
	setup   port.QueueSetup
	started bool // the back end knows its addresses
	enabled bool
}

func (r *frontendRing) close() {
	r.kick.close()
	r.closeCall()
}

func (r *frontendRing) closeCall() {
	if call := r.call.Swap(nil); call != nil {
		call.Close()
	}
}

// interrupt does in place of the back end what it does with the call
// descriptor.
func (r *frontendRing) interrupt() error {
	if call := r.call.Load(); call != nil {
		return call.Signal()
	}
	return nil
}

// makeKicks makes the descriptor of every virtqueue that the back end waits
// for. It serves over any number of resets.
func (f *Frontend) makeKicks() (err error) {
	for i := range f.rings {
		if f.rings[i].kick, err = newEventfd(); err != nil {
			return err
		}
	}
	return nil
}

// makeCalls makes the descriptors that the driver waits for, where there are
// none. A ring that does not ask for interrupts has one too: some back ends
// want it.
func (f *Frontend) makeCalls() error {
	for i := range f.rings {
		if r := &f.rings[i]; r.call.Load() == nil {
			call, err := port.NewEventFD()
			if err != nil {
				return err
			}
			r.call.Store(call)
		}
	}
	return nil
}

func (f *Frontend) anyStarted() bool {
	for i := range f.rings {
		if f.rings[i].started {
			return true
		}
	}
	return false
}

// MaxPairs is the configured number of queue pairs; the back end has them.
func (f *Frontend) MaxPairs() int { return f.cfg.Queues }

// QueueSize is the configured size for the queues that there are, 0 for
// others.
func (f *Frontend) QueueSize(index int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case index < 0:
		return 0, nil
	case index == f.controlIndex():
		return controlQueueSize, nil
	case index >= len(f.rings):
		return 0, nil
	}
	return f.cfg.QueueSize, nil
}

// SetupQueue tells the back end where a virtqueue is. The first pair is
// enabled with DRIVER_OK, others with EnablePairs.
func (f *Frontend) SetupQueue(q port.QueueSetup) (port.Kicker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Index >= 0 && q.Index == f.controlIndex() {
		return f.setupControl(q)
	}
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
	case q.Size < 1 || q.Size > f.cfg.QueueSize || !f.accepted.Has(virtio.RingPacked) && q.Size&(q.Size-1) != 0:
		return fmt.Errorf("%d descriptors: must be a power of two, up to queue_size=%d", q.Size, f.cfg.QueueSize)
	case !f.featuresOK || f.status.Has(virtio.StatusDriverOK) || f.rings[q.Index].started:
		return fmt.Errorf("%w: it must come once after the features, and before DRIVER_OK", port.ErrState)
	}
	if err := f.shareMemory(); err != nil {
		return err
	}
	if err := f.shareInflight(); err != nil {
		return err
	}
	base := uint32(q.Base)
	if f.accepted.Has(virtio.RingPacked) {
		base = packedBase(q.Base)
	}
	ring := &f.rings[q.Index]
	ring.setup = q
	ring.started = true // from here on a reset must stop it
	ring.enabled = !f.peer.switchable()
	return f.sendRing(q.Index, base)
}

// packedBase is the base of a packed virtqueue whose device is to start at a
// position, for available and used descriptors alike; 0 is that of a fresh one.
func packedBase(position uint16) uint32 {
	if position == 0 {
		return ring.FreshPacked
	}
	return uint32(position) | uint32(position)<<16
}

// sendRing tells the back end where a ring is, and where in it to start.
func (f *Frontend) sendRing(i int, base uint32) error {
	r, index := &f.rings[i], uint32(i)
	steps := []struct {
		m   message
		fds []int
	}{
		{m: message{request: setVringNum, state: vringState{index, uint32(r.setup.Size)}}},
		{m: message{request: setVringBase, state: vringState{index, base}}},
		{m: message{request: setVringAddr, addr: vringAddr{
			index: index,
			desc:  uint64(r.setup.Desc.Addr()),
			avail: uint64(r.setup.Avail.Addr()),
			used:  uint64(r.setup.Used.Addr()),
		}}},
		{m: message{request: setVringKick, u64: uint64(index)}, fds: []int{int(r.kick.fd.Load())}},
	}
	for _, s := range steps {
		if err := f.peer.channel.tell(s.m, s.fds...); err != nil {
			return err
		}
	}
	return nil
}

// QueueEvent is what the back end signals for a virtqueue that was set up with
// interrupts; without them the error wraps port.ErrNotSupported. The Waiter
// outlives the back end, and ends with the next Reset or Close.
func (f *Frontend) QueueEvent(index int) (port.Waiter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if index < 0 || index >= len(f.rings) || !f.rings[index].setup.Interrupt {
		return nil, f.wrap(fmt.Sprintf("interrupts of queue %d", index), fmt.Errorf("it was set up without: %w", port.ErrNotSupported))
	}
	return f.rings[index].call.Load(), nil
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
	if !f.peer.switchable() {
		return fmt.Errorf("%w: the back end cannot switch single queues off", port.ErrNotSupported)
	}
	var num uint32
	if on {
		num = 1
	}
	err := f.peer.channel.tell(message{request: setVringEnable, state: vringState{uint32(i), num}})
	if err == nil {
		ring.enabled = on
	}
	return err
}

// stopRings disables every ring, and then waits until the back end has let go
// of each.
func (f *Frontend) stopRings() error {
	if f.peer.switchable() {
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
		if _, err := f.peer.channel.ask(message{request: getVringBase, state: vringState{index: uint32(i)}}); err != nil {
			return err
		}
		ring.started, ring.enabled = false, false
	}
	return nil
}

// forgetRings leaves no ring to go on with. Who waits for an interrupt learns
// that none will come.
func (f *Frontend) forgetRings() {
	for i := range f.rings {
		r := &f.rings[i]
		if r.setup.Interrupt {
			r.closeCall()
		}
		r.setup, r.started, r.enabled = port.QueueSetup{}, false, false
	}
	f.inflight.close()
	f.inflight = nil
}
