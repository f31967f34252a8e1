package vhost

import (
	"fmt"
	"time"
)

// stuckTime is how long the driver's interrupt may take before its front end is
// given up.
const stuckTime = 500 * time.Millisecond

// watchCalls ends the session when a burst does not get past interrupting the
// driver. The mode of an eventfd is shared with the front end that sent it: one
// that makes it block, and keeps its counter full, would hold up the burst and
// whatever else its goroutine does. stop ends the watch, after the session.
func (s *session) watchCalls() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(stuckTime)
		defer ticker.Stop()
		seen := make([]uint32, len(s.rings))
		for {
			select {
			case <-ticker.C:
				s.releaseCalls(seen)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// releaseCalls ends the session if a signal is under way that was so already
// when the counts in seen were taken, and lets that signal go on. While it waits
// its queue is locked, so that nobody closes the descriptor.
func (s *session) releaseCalls(seen []uint32) {
	for i := range s.rings {
		call := s.rings[i].call.Load()
		if call == nil {
			continue
		}
		count := call.signals.Load()
		if count == seen[i] && count%2 == 1 {
			s.cut(fmt.Errorf("queue %d: the descriptor that calls the driver blocks", i))
			call.release()
		}
		seen[i] = count
	}
}
