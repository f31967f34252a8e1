package vhost

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

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

	mem      *guestMemory
	rings    []backendRing
	inflight *inflightMemory // nil: none
	log      *dirtyLog       // nil: none
	iotlb    *iotlb          // nil: addresses are not translated

	cause atomic.Pointer[error] // why it was cut; nil: it was not
}

func newSession(b *Backend, c *conn) *session {
	s := &session{backend: b, conn: c, mem: &guestMemory{}, rings: make([]backendRing, len(b.queues))}
	for i := range s.rings {
		s.rings[i].queue = b.queues[i]
	}
	return s
}

// serve answers messages until the connection ends; the error says why.
func (s *session) serve() error {
	for {
		m, fds, err := s.conn.receive()
		if cut := s.cause.Load(); cut != nil {
			closeFDs(fds)
			return *cut
		}
		if err != nil {
			return err
		}
		answer, err := s.obey(m, fds)
		closeFDs(fds)
		if err != nil {
			err = fmt.Errorf("%v: %w", m.request, err)
		}
		s.backend.noteRunning(s.anyRunning())
		wantsAck := m.flags&flagNeedReply != 0 && s.protocol.has(protocolReplyAck)
		switch {
		case answer != nil:
			err = errors.Join(err, s.reply(m.request, *answer))
			closeFDs(answer.fds)
		case wantsAck && m.request != getVringBase:
			err = s.acknowledge(m.request, err)
		}
		if err != nil {
			return err
		}
	}
}

// obey does what m asks, and starts the rings that were waiting for it.
func (s *session) obey(m message, fds []int) (a *answer, err error) {
	defer s.guard(debug.SetPanicOnFault(true), &err)
	if a, err = s.handle(m, fds); err == nil {
		err = s.startReady()
	}
	return a, err
}

func (s *session) reply(r request, a answer) error {
	a.request, a.flags = r, flagReply
	return s.conn.send(a.message, a.fds...)
}

func number(n uint64) *answer { return &answer{message: message{u64: n}} }

// acknowledge tells the front end whether its message failed; then it is the
// front end's matter what comes of that.
func (s *session) acknowledge(r request, failed error) error {
	var result uint64
	if failed != nil {
		result = 1
		s.backend.cfg.Log.Warn("vhost: refused a message of the front end", "cause", failed)
	}
	return s.reply(r, *number(result))
}

// handle does what m asks. A descriptor that it keeps becomes -1 in fds.
func (s *session) handle(m message, fds []int) (a *answer, err error) {
	if m.isReply() {
		return nil, errors.New("an answer that nobody asked for")
	}
	if least, most := expectedFDs(m); len(fds) < least || len(fds) > most {
		return nil, fmt.Errorf("%d file descriptors instead of %d", len(fds), most)
	}
	switch m.request {
	case setOwner:
		return nil, nil
	case resetOwner, resetDevice:
		s.reset()
		return nil, nil
	case getFeatures:
		return number(uint64(s.backend.offer | virtio.VhostUserProtocolFeatures)), nil
	case setFeatures:
		return nil, s.setFeatures(virtio.Features(m.u64))
	case getProtocolFeatures:
		return number(uint64(s.backend.protocol())), nil
	case setProtocolFeatures:
		if extra := protocolFeatures(m.u64) &^ s.backend.protocol(); extra != 0 {
			return nil, fmt.Errorf("protocol features %#x were not offered", uint64(extra))
		}
		s.protocol = protocolFeatures(m.u64)
		return nil, nil
	case getQueueNum:
		return number(uint64(s.backend.Pairs())), nil
	case setStatus:
		s.setStatus(virtio.Status(m.u64))
		return nil, nil
	case getStatus:
		return number(uint64(s.status)), nil
	case getConfig, setConfig, netSetMTU:
		return s.handleConfig(m)
	case setBackendReqFD:
		return nil, s.backend.setRequests(s.conn.timeout, fds)
	case getMaxMemSlots:
		return number(maxMemSlots), nil
	case setMemTable, addMemReg, remMemReg:
		return nil, s.handleMemory(m, fds)
	case iotlbMsg:
		return nil, s.handleIOTLB(m.iotlb)
	case setLogBase:
		return s.setLogBase(m.log, fds[0])
	case setLogFD:
		return nil, nil // nobody needs to be woken: the log is looked at when it is wanted
	case sendRARP:
		s.backend.announce(m.u64)
		return nil, nil
	case getInflightFD:
		return s.makeInflight(m.inflight)
	case setInflightFD:
		return nil, s.setInflight(m.inflight, fds[0])
	case setVringKick, setVringCall, setVringErr:
		return nil, s.setVringFD(m, fds)
	case setVringNum, setVringBase, setVringAddr, setVringEnable, getVringBase:
		return s.setVring(m)
	default:
		return nil, errors.New("this back end does not know it")
	}
}

// expectedFDs is how many descriptors belong to m, at least and at most.
func expectedFDs(m message) (least, most int) {
	switch m.request {
	case setMemTable:
		return len(m.table), len(m.table)
	case addMemReg, setInflightFD, setBackendReqFD, setLogBase, setLogFD:
		return 1, 1
	case remMemReg:
		return 0, 1 // it is not needed, but some send it
	case setVringKick, setVringCall, setVringErr:
		if m.u64&vringNoFD == 0 {
			return 1, 1
		}
	}
	return 0, 0
}

func (s *session) setFeatures(f virtio.Features) error {
	offer := s.backend.offer | virtio.VhostUserProtocolFeatures
	if extra := f &^ offer; extra != 0 {
		s.refused = true
		s.status &^= virtio.StatusFeaturesOK
		return fmt.Errorf("it was not offered: %v", extra)
	}
	running := s.anyRunning()
	if (f^s.features)&^virtio.VhostLogAll != 0 && running {
		return errors.New("features cannot change while rings run")
	}
	s.features, s.settled, s.refused = f, true, false
	if !running {
		s.setIOMMU(f.Has(virtio.AccessPlatform))
	}
	s.shareLog()
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

// reset stops every ring and forgets what was said but for the memory and the
// protocol.
func (s *session) reset() {
	for i := range s.rings {
		r := &s.rings[i]
		s.stopRing(r)
		r.queue.setCall(nil)
		r.call.Store(nil)
		r.ringSetup = ringSetup{}
	}
	s.features, s.settled, s.refused, s.status = 0, false, false, 0
	s.setIOMMU(false)
	s.inflight.unmap()
	s.log.unmap()
	s.inflight, s.log = nil, nil
}

// end stops everything and gives it back.
func (s *session) end() {
	s.reset()
	s.backend.dropRequests()
	s.giveUp(&guestMemory{})
}
