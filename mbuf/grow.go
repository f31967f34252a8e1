package mbuf

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// maxShared is the number of regions that a vhost-user back end takes.
const maxShared = 8

// subscriber is who wants to know about new memory.
type subscriber struct {
	grown func(added []Region) error
	undo  []func(gone []Region) error
}

// OnGrow registers a function that Grow and Register call with the new regions
// before any of that memory is handed out: the place to map it for a device.
// Its error undoes the growth; then undo is called where grown has succeeded,
// so that it takes the mapping back, as it is when Unregister takes memory
// away. Both run on the goroutine that changes the memory and must not call
// Grow, Register, Unregister, OnGrow or Close.
//
// OnGrow waits for a growth that is under way. A transport that calls OnGrow,
// then Regions and maps those, all under a lock of its own that grown takes
// too, sees every region once. Stop ends the subscription; it does not wait
// for a call that is under way.
func (m *Memory) OnGrow(grown func(added []Region) error, undo ...func(gone []Region) error) (stop func()) {
	m.growing.Lock()
	defer m.growing.Unlock()
	s := &subscriber{grown: grown, undo: undo}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribers = append(m.subscribers, s)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.subscribers = slices.DeleteFunc(m.subscribers, func(other *subscriber) bool { return other == s })
	}
}

// Grow adds at least size bytes: a memory file of its own, made as the
// MemoryConfig says, with device addresses that no other region has. The
// bytes can be allocated once every subscriber has agreed; otherwise nothing
// is changed.
func (m *Memory) Grow(size int) (added []Region, err error) {
	if added, err = m.grow(size); err != nil {
		return nil, fmt.Errorf("mbuf: %w", err)
	}
	return added, nil
}

// grow is Grow, for errors of the package's own to wrap.
func (m *Memory) grow(size int) (added []Region, err error) {
	m.growing.Lock()
	defer m.growing.Unlock()
	if added, err = m.add(size); err != nil {
		return nil, fmt.Errorf("%d bytes of memory: %w", size, err)
	}
	return added, nil
}

func (m *Memory) add(size int) ([]Region, error) {
	if size <= 0 {
		return nil, errors.New("must be more than 0")
	}
	if err := m.mayGrow(); err != nil {
		return nil, err
	}
	s, err := newSegment(m.cfg, size)
	if err != nil {
		return nil, err
	}
	added, err := m.admit(Region{Bytes: s.bytes, FD: s.fd, PageSize: s.pageSize})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.segments = append(m.segments, s)
	for _, r := range added {
		m.areas = append(m.areas, newArea(r))
	}
	return added, nil
}

// mayGrow reports why there can be no further region. The caller holds growing.
func (m *Memory) mayGrow() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("the memory is closed: %w", os.ErrClosed)
	}
	if n := len(m.regions()); m.cfg.IOVA == IOVAVirtual && n >= maxShared {
		return fmt.Errorf("it would be region %d, and a vhost-user back end takes at most %d: start with more memory (-m), or add more at a time", n+1, maxShared)
	}
	return nil
}

// admit gives new memory its device addresses and tells every subscriber. The
// caller holds growing.
func (m *Memory) admit(whole Region) ([]Region, error) {
	m.mu.Lock()
	taken, subscribers := m.regions(), slices.Clone(m.subscribers)
	m.mu.Unlock()
	added, err := m.cfg.assign(whole, taken)
	if err != nil {
		return nil, err
	}
	return added, announce(subscribers, added)
}

// announce tells every subscriber, or none.
func announce(subscribers []*subscriber, added []Region) error {
	for i, s := range subscribers {
		if err := s.grown(slices.Clone(added)); err != nil {
			return errors.Join(err, withdraw(subscribers[:i], added))
		}
	}
	return nil
}

// withdraw tells the subscribers, the last one first, that memory goes.
func withdraw(subscribers []*subscriber, gone []Region) error {
	var errs []error
	for _, s := range slices.Backward(subscribers) {
		for _, undo := range s.undo {
			errs = append(errs, undo(slices.Clone(gone)))
		}
	}
	return errors.Join(errs...)
}
