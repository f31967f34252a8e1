package testpmd

import "time"

// settleTime is how long a core that has nothing to do sleeps at first: then it
// takes back what was sent last.
const settleTime = 10 * time.Millisecond

// doze is loop for a worker that sleeps while nothing moves.
func (w *worker) doze() {
	var settled time.Time // zero: packets moved
	for !w.stop.Load() {
		if packets := w.round(); packets > 0 && !w.stalled() {
			settled = time.Time{}
			w.poller.Next(packets, time.Time{})
			continue
		}
		w.reclaim()
		now := time.Now()
		if settled.IsZero() {
			settled = now.Add(settleTime)
		}
		w.poller.Next(0, w.due(now, settled))
	}
}

// stalled reports whether all that the streams make has no room.
func (w *worker) stalled() bool {
	for _, s := range w.streams {
		if !w.generates || !s.Stalled() {
			return false
		}
	}
	return true
}

// due is when there is something to do without an alarm: what was sent is to be
// taken back, or a stream has packets that it holds back; zero: never.
func (w *worker) due(now, settled time.Time) (t time.Time) {
	if now.Before(settled) {
		t = settled
	}
	for _, s := range w.streams {
		if d := s.Due(); !d.IsZero() && (t.IsZero() || d.Before(t)) {
			t = d
		}
	}
	return t
}

// wake ends the worker's sleep; any goroutine may call it.
func (w *worker) wake() {
	if w.poller != nil {
		w.poller.Wake()
	}
}
