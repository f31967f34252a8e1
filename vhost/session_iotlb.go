package vhost

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// setIOMMU says, while no ring runs, whether addresses are to be translated.
// Translations of before are forgotten.
func (s *session) setIOMMU(on bool) {
	s.iotlb.close()
	s.iotlb = nil
	if on {
		s.iotlb = newIOTLB(s.backend.askFrontEnd)
	}
	s.mem.iotlb = s.iotlb
}

// askFrontEnd sends a message about translations.
func (b *Backend) askFrontEnd(m iotlbMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sendRequest(backendIOTLB, m.append(nil))
}

// handleIOTLB takes translations, and gives them back.
func (s *session) handleIOTLB(m iotlbMessage) error {
	switch {
	case s.iotlb == nil:
		return errors.New("ACCESS_PLATFORM was not negotiated")
	case m.kind == iotlbUpdate:
		e, err := m.translation()
		if err == nil {
			s.addTranslation(e)
		}
		return err
	case m.kind == iotlbInvalidate:
		last := m.iova + (m.size - 1) // 2^64 bytes have size 0
		if last < m.iova {
			return fmt.Errorf("%d bytes at device address %#x are to be forgotten: the range wraps", m.size, m.iova)
		}
		s.removeTranslations(m.iova, last)
		return nil
	default:
		return fmt.Errorf("this back end does not know kind %d of it", m.kind)
	}
}

// addTranslation adds e in place of what it contradicts.
func (s *session) addTranslation(e translation) {
	t := s.iotlb
	if !t.knows(e) && !t.fits(e) {
		s.removeTranslations(e.first, e.last)
		s.betweenBursts(t.thin)
	}
	t.add(e)
	for i := range s.rings {
		s.rings[i].queue.wake()
	}
	s.backend.wake()
}

// removeTranslations takes translations away. Rings that lie there are held
// until there are others; see startReady.
func (s *session) removeTranslations(first, last uint64) {
	s.betweenBursts(func() { s.iotlb.remove(first, last) })
	for i := range s.rings {
		r := &s.rings[i]
		if r.device != nil && slices.ContainsFunc(r.areas[:], func(a ringArea) bool { return a.overlaps(first, last) }) {
			r.pause()
		}
	}
}

// forgetTranslations takes all translations away when no ring runs any more: a
// front end says no longer what becomes of them.
func (s *session) forgetTranslations() {
	if s.iotlb != nil && !s.anyRunning() {
		s.removeTranslations(0, math.MaxUint64)
	}
}

// betweenBursts runs f while no burst is under way on any queue.
func (s *session) betweenBursts(f func()) {
	for i := range s.rings {
		s.rings[i].queue.mu.Lock()
		defer s.rings[i].queue.mu.Unlock()
	}
	f()
}
