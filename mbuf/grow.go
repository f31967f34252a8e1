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
	undo  []func(added []Region)
}

// OnGrow registers a function that Grow calls with the new regions before any
// of that memory is handed out: the place to map it for a device. Its error
// undoes the growth; then undo is called where grown has succeeded, so that
// it takes the mapping back. Both run on the goroutine that grows the memory
// and must not call Grow, OnGrow or Close.
//
// OnGrow waits for a growth that is under way. A transport that calls OnGrow,
// then Regions and maps those, all under a lock of its own that grown takes
// too, sees every region once. Stop ends the subscription; it does not wait
// for a call that is under way.
func (m *Memory) OnGrow(grown func(added []Region) error, undo ...func(added []Region)) (stop func()) {
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
	taken := m.Regions()
	m.mu.Lock()
	closed, subscribers := m.closed, slices.Clone(m.subscribers)
	m.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("the memory is closed: %w", os.ErrClosed)
	case size <= 0:
		return nil, errors.New("must be more than 0")
	case m.cfg.IOVA == IOVAVirtual && len(taken) >= maxShared:
		return nil, fmt.Errorf("it would be region %d, and a vhost-user back end takes at most %d: start with more memory (-m), or add more at a time", len(taken)+1, maxShared)
	}
	s, err := newSegment(m.cfg, size)
	if err != nil {
		return nil, err
	}
	added, err := m.cfg.assign(s, taken)
	if err == nil {
		err = announce(subscribers, added)
	}
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

// announce tells every subscriber, or none.
func announce(subscribers []*subscriber, added []Region) error {
	for i, s := range subscribers {
		err := s.grown(slices.Clone(added))
		if err == nil {
			continue
		}
		for _, earlier := range slices.Backward(subscribers[:i]) {
			for _, undo := range earlier.undo {
				undo(slices.Clone(added))
			}
		}
		return err
	}
	return nil
}
