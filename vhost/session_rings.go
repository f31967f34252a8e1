package vhost

import (
	"errors"
	"fmt"
	"sync/atomic"

	"vionet/mbuf"
	"vionet/ring"
	"vionet/virtio"
)

// backendRing is what the front end has said about one virtqueue.
type backendRing struct {
	queue   *Queue
	call    atomic.Pointer[eventfd] // the queue's; nil: none
	lenders []*mbuf.Lender          // of frames that were in use when it stopped
	ringSetup
}

// ringSetup is what a reset forgets.
type ringSetup struct {
	size    uint32
	base    uint32
	addr    vringAddr
	placed  bool        // addr is known
	areas   [3]ringArea // descriptors, the driver's and the device's; as it was started
	kick    *kickWatch
	started bool // there was a SET_VRING_KICK since the last GET_VRING_BASE
	enabled bool
	device  ring.Device // while the queue works on it
}

// ring gives the ring of an index that the front end sent.
func (s *session) ring(index uint64) (*backendRing, error) {
	if index >= uint64(len(s.rings)) {
		return nil, fmt.Errorf("queue %d of %d", index, len(s.rings))
	}
	return &s.rings[index], nil
}

// setVringFD takes over a descriptor for kicks or calls; without one the front
// end does without kicks or calls.
func (s *session) setVringFD(m message, fds []int) error {
	r, err := s.ring(m.u64 & vringIndexMask)
	if err != nil || m.request == setVringErr {
		return err
	}
	fd := -1
	if len(fds) > 0 {
		fd, fds[0] = fds[0], -1
	}
	if m.request == setVringCall {
		var call *eventfd
		if fd >= 0 {
			call, err = adoptCall(fd)
		}
		r.call.Store(call)
		r.queue.setCall(call)
		return err
	}
	r.kick.close()
	r.kick = nil
	r.started = true
	if fd >= 0 {
		r.kick, err = watchKick(fd, func() {
			r.queue.wake()
			s.backend.wake()
		})
	}
	return err
}

// setVring handles the messages that say one thing about a ring.
func (s *session) setVring(m message) (a *answer, err error) {
	index := m.state.index
	if m.request == setVringAddr {
		index = m.addr.index
	}
	r, err := s.ring(uint64(index))
	if err != nil {
		return nil, err
	}
	running := r.device != nil
	switch m.request {
	case getVringBase:
		s.stopRing(r)
		s.forgetTranslations()
		r.record(s).forget() // the base tells it all
		return &answer{message: message{state: vringState{index, r.base}}}, nil
	case setVringEnable:
		r.enabled = m.state.num != 0
		if !r.enabled {
			r.pause()
		}
		return nil, nil
	}
	if running && !(m.request == setVringAddr && m.addr.sameAreas(r.addr)) {
		return nil, fmt.Errorf("queue %d runs", index)
	}
	switch m.request {
	case setVringNum:
		// A split virtqueue, which has fewer sizes, looks when it starts.
		if m.state.num < 1 || m.state.num > ring.MaxSize {
			return nil, fmt.Errorf("queue %d of %d descriptors: must have 1 to %d", index, m.state.num, ring.MaxSize)
		}
		r.size = m.state.num
	case setVringBase:
		r.base = m.state.num
	case setVringAddr:
		r.addr, r.placed = m.addr, true
		s.shareLog()
	}
	return nil, nil
}

// sameAreas reports whether a says the same of where a vring is, if not of how
// it is logged.
func (a vringAddr) sameAreas(b vringAddr) bool {
	return a.desc == b.desc && a.avail == b.avail && a.used == b.used
}

func (s *session) anyRunning() bool {
	for i := range s.rings {
		if s.rings[i].device != nil {
			return true
		}
	}
	return false
}

// startReady starts every ring that nothing is missing for any more.
func (s *session) startReady() error {
	if s.mem.empty() || !s.settled || s.protocol.has(protocolStatus) && !s.status.Has(virtio.StatusDriverOK) {
		return nil
	}
	for i := range s.rings {
		r := &s.rings[i]
		if r.device != nil || !r.started || !r.enabled || !r.placed || r.size == 0 {
			continue
		}
		err := s.startRing(r)
		if errors.Is(err, errMissed) {
			continue // it starts when the translation comes
		}
		if err != nil {
			r.started = false
			return fmt.Errorf("queue %d: %w", r.queue.index, err)
		}
	}
	return nil
}

func (s *session) startRing(r *backendRing) error {
	make := s.splitDevice
	if s.features.Has(virtio.RingPacked) {
		make = s.packedDevice
	}
	device, err := make(r)
	if err != nil {
		return err
	}
	r.device = device
	r.queue.setDirty(s.logOf(r))
	r.queue.start(device, s.mem, s.features)
	r.queue.wake()
	s.backend.wake()
	return nil
}

// findAreas finds the three areas of a ring, whose lengths are in bytes.
func (s *session) findAreas(r *backendRing, desc, driver, device int) (a [3][]byte, err error) {
	access := [3]access{mayRead, mayRead, mayRead | mayWrite}
	if s.features.Has(virtio.RingPacked) {
		access[0] |= mayWrite
	}
	for i, where := range []struct {
		addr uint64
		n    int
	}{{r.addr.desc, desc}, {r.addr.avail, driver}, {r.addr.used, device}} {
		if r.areas[i], err = s.mem.ringArea(where.addr, where.n, access[i]); err != nil {
			return a, fmt.Errorf("its areas: %w", err)
		}
		a[i] = r.areas[i].bytes
	}
	return a, nil
}

func (s *session) deviceOptions(r *backendRing) ring.DeviceOptions {
	return ring.DeviceOptions{
		Translate:  s.mem.slice,
		EventIdx:   s.features.Has(virtio.EventIdx),
		ReadTables: r.queue.index%2 == 1, // the front end transmits
	}
}

func (s *session) splitDevice(r *backendRing) (ring.Device, error) {
	l, err := ring.NewSplitLayout(int(r.size))
	if err != nil {
		return nil, err
	}
	if r.base > 0xffff {
		return nil, fmt.Errorf("base %d has more than 16 bits", r.base)
	}
	driver, device := 4+2*l.Size, 4+8*l.Size
	if s.features.Has(virtio.EventIdx) {
		driver, device = l.AvailLen, l.UsedLen
	}
	a, err := s.findAreas(r, l.DescLen(), driver, device)
	if err != nil {
		return nil, err
	}
	d, err := ring.NewSplitDevice(l.Size, a[0], a[1], a[2], s.deviceOptions(r))
	if err != nil {
		return nil, err
	}
	if d.Base() != r.base {
		s.backend.cfg.Log.Warn("vhost: the queue goes on where its used ring ends, not at its base",
			"queue", r.queue.index, "used", d.Base(), "base", r.base)
	}
	return d, nil
}

func (s *session) packedDevice(r *backendRing) (ring.Device, error) {
	l, err := ring.NewPackedLayout(int(r.size))
	if err != nil {
		return nil, err
	}
	a, err := s.findAreas(r, l.DescLen(), ring.EventLen, ring.EventLen)
	if err != nil {
		return nil, err
	}
	record := r.record(s)
	if record == nil {
		return ring.NewPackedDevice(l.Size, a[0], a[1], a[2], r.base, nil, s.deviceOptions(r))
	}
	base, err := record.resume(l.Size, a[0], r.base)
	if err != nil {
		return nil, err
	}
	return ring.NewPackedDevice(l.Size, a[0], a[1], a[2], base, record, s.deviceOptions(r))
}

// record is where the ring's state outlives this back end; nil: nowhere.
func (r *backendRing) record(s *session) *usedRecord {
	return s.inflight.record(r.queue.index, int(r.size))
}

// pause takes the ring from its queue, to be started again where it was.
func (r *backendRing) pause() {
	if late := r.queue.stop(); late != nil {
		r.lenders = append(r.lenders, late)
	}
	if r.device != nil {
		r.base = r.device.Base()
		r.device = nil
	}
}

// stopRing stops a ring until there is another SET_VRING_KICK.
func (s *session) stopRing(r *backendRing) {
	r.pause()
	r.started = false
	r.kick.close()
	r.kick = nil
}
