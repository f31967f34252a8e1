package vhost

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"vionet/ring"
	"vionet/virtio"
)

// session is what a back end knows of one front end, from its connection to
// its end. One goroutine owns it.
type session struct {
	backend  *Backend
	conn     *conn
	protocol protocolFeatures // negotiated

	features virtio.Features // negotiated
	settled  bool            // features were accepted
	refused  bool            // the last SET_FEATURES was not
	status   virtio.Status

	mem   *guestMemory
	rings []backendRing
}

// backendRing is what the front end has said about one virtqueue.
type backendRing struct {
	queue   *Queue
	size    uint32
	base    uint16
	addr    vringAddr
	placed  bool // addr is known
	kick    *kickWatch
	started bool // there was a SET_VRING_KICK since the last GET_VRING_BASE
	enabled bool
	device  *ring.SplitDevice // while the queue works on it
}

func newSession(b *Backend, c *conn) *session {
	s := &session{backend: b, conn: c, rings: make([]backendRing, len(b.queues))}
	for i := range s.rings {
		s.rings[i].queue = b.queues[i]
	}
	return s
}

// serve answers messages until the connection ends; the error says why.
func (s *session) serve() error {
	for {
		m, fds, err := s.conn.receive()
		if err != nil {
			return err
		}
		answer, err := s.handle(m, fds)
		closeFDs(fds)
		if err == nil {
			err = s.startReady()
		}
		if err != nil {
			err = fmt.Errorf("%v: %w", m.request, err)
		}
		wantsAck := m.flags&flagNeedReply != 0 && s.protocol.has(protocolReplyAck)
		switch {
		case answer != nil:
			err = errors.Join(err, s.reply(m.request, *answer))
		case wantsAck && m.request != getVringBase:
			err = s.acknowledge(m.request, err)
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) reply(r request, m message) error {
	m.request, m.flags = r, flagReply
	return s.conn.send(m)
}

// acknowledge tells the front end whether its message failed; then it is the
// front end's matter what comes of that.
func (s *session) acknowledge(r request, failed error) error {
	var result uint64
	if failed != nil {
		result = 1
		s.backend.cfg.Log.Warn("vhost: refused a message of the front end", "cause", failed)
	}
	return s.reply(r, message{u64: result})
}

// handle does what m asks. A descriptor that it keeps becomes -1 in fds.
func (s *session) handle(m message, fds []int) (answer *message, err error) {
	if m.isReply() {
		return nil, errors.New("an answer that nobody asked for")
	}
	if want := expectedFDs(m); len(fds) != want {
		return nil, fmt.Errorf("%d file descriptors instead of %d", len(fds), want)
	}
	switch m.request {
	case setOwner, resetOwner:
		return nil, nil
	case getFeatures:
		return &message{u64: uint64(s.backend.offer | virtio.VhostUserProtocolFeatures)}, nil
	case setFeatures:
		return nil, s.setFeatures(virtio.Features(m.u64))
	case getProtocolFeatures:
		return &message{u64: uint64(s.backend.protocol)}, nil
	case setProtocolFeatures:
		if extra := protocolFeatures(m.u64) &^ s.backend.protocol; extra != 0 {
			return nil, fmt.Errorf("protocol features %#x were not offered", uint64(extra))
		}
		s.protocol = protocolFeatures(m.u64)
		return nil, nil
	case getQueueNum:
		return &message{u64: uint64(s.backend.Pairs())}, nil
	case setStatus:
		s.setStatus(virtio.Status(m.u64))
		return nil, nil
	case getStatus:
		return &message{u64: uint64(s.status)}, nil
	case setMemTable:
		return nil, s.setMemTable(m.table, fds)
	case setVringKick, setVringCall, setVringErr:
		return nil, s.setVringFD(m, fds)
	case setVringNum, setVringBase, setVringAddr, setVringEnable, getVringBase:
		return s.setVring(m)
	default:
		return nil, errors.New("this back end does not know it")
	}
}

// expectedFDs is the number of descriptors that belong to m.
func expectedFDs(m message) int {
	switch m.request {
	case setMemTable:
		return len(m.table)
	case setVringKick, setVringCall, setVringErr:
		if m.u64&vringNoFD == 0 {
			return 1
		}
	}
	return 0
}

func (s *session) setFeatures(f virtio.Features) error {
	offer := s.backend.offer | virtio.VhostUserProtocolFeatures
	if extra := f &^ offer; extra != 0 {
		s.refused = true
		s.status &^= virtio.StatusFeaturesOK
		return fmt.Errorf("it was not offered: %v", extra)
	}
	if f != s.features && s.anyRunning() {
		return errors.New("features cannot change while rings run")
	}
	s.features, s.settled, s.refused = f, true, false
	if !f.Has(virtio.VhostUserProtocolFeatures) {
		for i := range s.rings {
			s.rings[i].enabled = true
		}
	}
	return nil
}

// setStatus keeps the device status. 0 is a reset: every ring stops.
func (s *session) setStatus(status virtio.Status) {
	if s.refused {
		status &^= virtio.StatusFeaturesOK
	}
	s.status = status
	if status == 0 {
		for i := range s.rings {
			s.stopRing(&s.rings[i])
		}
	}
}

// setMemTable replaces the memory. Rings that run are held for the time, and
// go on in the new memory where they were.
func (s *session) setMemTable(table []memRegion, fds []int) error {
	mem, err := mapGuest(table, fds)
	if err != nil {
		return err
	}
	for i := range s.rings {
		s.rings[i].pause()
	}
	s.mem.unmap()
	s.mem = mem
	return nil
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
			call = adoptEventfd(fd)
			err = unix.SetNonblock(fd, true) // whatever it is, a burst must not wait for it
		}
		r.queue.setCall(call)
		return err
	}
	r.kick.close()
	r.kick = nil
	r.started = true
	if fd >= 0 {
		r.kick, err = watchKick(fd, s.backend.wake)
	}
	return err
}

// setVring handles the messages that say one thing about a ring.
func (s *session) setVring(m message) (answer *message, err error) {
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
		return &message{state: vringState{index, uint32(r.base)}}, nil
	case setVringEnable:
		r.enabled = m.state.num != 0
		if !r.enabled {
			r.pause()
		}
		return nil, nil
	}
	if running {
		return nil, fmt.Errorf("queue %d runs", index)
	}
	switch m.request {
	case setVringNum:
		if _, err := ring.NewSplitLayout(int(m.state.num)); err != nil {
			return nil, err
		}
		r.size = m.state.num
	case setVringBase:
		if m.state.num > 0xffff {
			return nil, fmt.Errorf("queue %d: base %d has more than 16 bits", index, m.state.num)
		}
		r.base = uint16(m.state.num)
	case setVringAddr:
		r.addr, r.placed = m.addr, true
	}
	return nil, nil
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
	if s.mem == nil || !s.settled || s.protocol.has(protocolStatus) && !s.status.Has(virtio.StatusDriverOK) {
		return nil
	}
	for i := range s.rings {
		r := &s.rings[i]
		if r.device != nil || !r.started || !r.enabled || !r.placed || r.size == 0 {
			continue
		}
		if err := s.startRing(i, r); err != nil {
			r.started = false
			return fmt.Errorf("queue %d: %w", i, err)
		}
	}
	return nil
}

func (s *session) startRing(i int, r *backendRing) error {
	size := int(r.size)
	desc, ok1 := s.mem.userSlice(r.addr.desc, size*ring.DescSize)
	avail, ok2 := s.mem.userSlice(r.addr.avail, 4+2*size)
	used, ok3 := s.mem.userSlice(r.addr.used, 4+8*size)
	if !ok1 || !ok2 || !ok3 {
		return errors.New("its areas are not in shared memory")
	}
	device, err := ring.NewSplitDevice(size, desc, avail, used, s.mem.slice)
	if err != nil {
		return err
	}
	if device.Next() != r.base {
		s.backend.cfg.Log.Warn("vhost: the queue goes on where its used ring ends, not at its base",
			"queue", i, "used", device.Next(), "base", r.base)
	}
	r.device = device
	r.queue.start(device, s.mem, s.features)
	s.backend.wake()
	return nil
}

// pause takes the ring from its queue, to be started again where it was.
func (r *backendRing) pause() {
	r.queue.stop()
	if r.device != nil {
		r.base = r.device.Next()
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

// end stops everything and gives it back.
func (s *session) end() {
	for i := range s.rings {
		s.stopRing(&s.rings[i])
		s.rings[i].queue.setCall(nil)
	}
	s.mem.unmap()
}
