package driver

import (
	"sync"
	"time"

	"vionet/mbuf"
	"vionet/port"
)

// SharedTxBuffer is a TxBuffer for programs without a poll loop: any goroutine
// may call its methods at any time, and it sends by itself what has waited for
// TxBufferConfig.Drain. At rest it costs nothing; there is no goroutine that
// waits. The queue behind it keeps a cache of its own.
type SharedTxBuffer struct {
	mu     sync.Mutex // guards the buffer and the queue behind it
	buffer *TxBuffer
	timer  *time.Timer // runs while the buffer is timed
}

// NewSharedTxBuffer puts a buffer in front of q. From then on q is the buffer's
// alone. cfg.Unsent may be called on a goroutine of the buffer's own. An error
// wraps port.ErrInvalid and says which value is out of its range.
func NewSharedTxBuffer(q port.TxQueue, cfg TxBufferConfig) (*SharedTxBuffer, error) {
	buffer, err := NewTxBuffer(q, cfg)
	if err != nil {
		return nil, err
	}
	s := &SharedTxBuffer{buffer: buffer}
	s.timer = time.AfterFunc(time.Hour, s.sendLate)
	s.timer.Stop()
	return s, nil
}

// Burst takes all of pkts, as TxBuffer.Burst does. Packets of one call stay
// together and in order.
func (s *SharedTxBuffer) Burst(pkts []*mbuf.Buf) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.buffer.Burst(pkts)
	if s.buffer.Waiting() > 0 && !s.buffer.timed {
		s.buffer.timed = true
		s.timer.Reset(s.buffer.drain)
	}
	return n
}

// sendLate sends what waits when its time has come. If it was sent meanwhile,
// and other packets came, these go early.
func (s *SharedTxBuffer) sendLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buffer.timed {
		s.buffer.flush(&s.buffer.late)
	}
}

// Flush sends what waits and returns the number of packets that the queue took.
func (s *SharedTxBuffer) Flush() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Flush()
}

// Reclaim frees the packets that the queue behind the buffer has sent. Nothing
// else does while no packets are sent: whoever runs out of buffers calls it.
func (s *SharedTxBuffer) Reclaim() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Reclaim()
}

// Close sends what waits, as TxBuffer.Close does. When it has returned, the
// queue is not touched any more. A second call does nothing. It returns nil.
func (s *SharedTxBuffer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Close() // a timer that still runs finds nothing
}

// Err is nil, or why the queue has stopped for good. After Close it wraps
// port.ErrClosed.
func (s *SharedTxBuffer) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buffer.Err()
}

// Stats reads the counters. Packets that wait are in none of them.
func (s *SharedTxBuffer) Stats() TxBufferStats { return s.buffer.Stats() }

// ResetStats sets the counters to zero.
func (s *SharedTxBuffer) ResetStats() { s.buffer.ResetStats() }
