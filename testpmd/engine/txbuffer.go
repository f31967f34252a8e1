package engine

import (
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// Buffer makes the stream's packets wait in front of its transmit queue until
// they make a burst of cfg.Size. Whoever drives the stream calls Poll beside the
// mode. What the queue does not take is dropped and counted: cfg.Unsent is the
// stream's own. It is called at most once, before UseCache.
func (s *Stream) Buffer(cfg driver.TxBufferConfig) error {
	cfg.Unsent = s.dropUnsent
	b, err := driver.NewTxBuffer(departures{s.Tx, s}, cfg)
	if err != nil {
		return err
	}
	s.buffer, s.Tx = b, b
	return nil
}

// departures is a transmit queue that counts for a stream what it takes.
type departures struct {
	port.TxQueue
	stream *Stream
}

func (q departures) Burst(pkts []*mbuf.Buf) int {
	n := q.TxQueue.Burst(pkts)
	q.stream.TxPackets.Add(uint64(n))
	return n
}

func (s *Stream) dropUnsent(pkts []*mbuf.Buf) {
	s.stalled = true
	s.TxDropped.Add(uint64(len(pkts)))
	s.cache.Put(pkts)
}

// Waiting is the number of packets that wait in front of the transmit queue.
func (s *Stream) Waiting() int {
	if s.buffer == nil {
		return 0
	}
	return s.buffer.Waiting()
}

// Poll sends what has waited long enough, and returns how many packets went. It
// is called while some wait, with the time since any moment that stays the same.
func (s *Stream) Poll(now time.Duration) int { return s.buffer.Poll(now) }

// Buffered are the counters of the packets' waiting, which any goroutine may
// read; ok is false where they do not wait.
func (s *Stream) Buffered() (stats driver.TxBufferStats, ok bool) {
	if s.buffer == nil {
		return stats, false
	}
	return s.buffer.Stats(), true
}
