package driver

// TxBufferStats are the counters of a TxBuffer since it was made, or since the
// last ResetStats.
type TxBufferStats struct {
	Full    uint64 // bursts sent because Size packets were there
	Late    uint64 // because packets had waited for the time Drain
	Asked   uint64 // by Flush and Close
	Packets uint64 // that the queue took
	Dropped uint64 // packets that it did not take, and that were given up
	Retries uint64 // how often packets were offered again
}

// Flushes is the number of bursts that were sent, for whatever reason.
func (s TxBufferStats) Flushes() uint64 { return s.Full + s.Late + s.Asked }

// PerFlush is the mean number of packets of a burst, or 0 before the first one.
func (s TxBufferStats) PerFlush() float64 {
	if s.Flushes() == 0 {
		return 0
	}
	return float64(s.Packets+s.Dropped) / float64(s.Flushes())
}

// Stats reads the counters. Packets that wait are in none of them.
func (t *TxBuffer) Stats() TxBufferStats {
	return TxBufferStats{
		Full: t.full.Load(), Late: t.late.Load(), Asked: t.asked.Load(),
		Packets: t.packets.Load(), Dropped: t.lost.Load(), Retries: t.retried.Load(),
	}
}

// ResetStats sets the counters to zero.
func (t *TxBuffer) ResetStats() {
	t.full.Reset()
	t.late.Reset()
	t.asked.Reset()
	t.packets.Reset()
	t.lost.Reset()
	t.retried.Reset()
}
