package driver

import "vionet/port"

// Stats reads the counters since the last ResetStats, of this start and of
// those before.
func (d *Device) Stats() port.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return subStats(addStats(d.past, d.queueStats()), d.base).Totals()
}

// ResetStats makes the counters start from 0. The queues go on counting: the
// values of now are taken off later.
func (d *Device) ResetStats() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.base = addStats(d.past, d.queueStats())
}

// queueStats reads the counters of the queues that exist.
func (d *Device) queueStats() (s port.Stats) {
	for _, q := range d.rx {
		s.Rx = append(s.Rx, q.stats())
	}
	for _, q := range d.tx {
		s.Tx = append(s.Tx, q.stats())
	}
	return s
}

func addStats(a, b port.Stats) port.Stats {
	return port.Stats{Rx: combine(a.Rx, b.Rx, plus), Tx: combine(a.Tx, b.Tx, plus)}
}

func subStats(a, b port.Stats) port.Stats {
	return port.Stats{Rx: combine(a.Rx, b.Rx, minus), Tx: combine(a.Tx, b.Tx, minus)}
}

func plus(a, b uint64) uint64  { return a + b }
func minus(a, b uint64) uint64 { return a - b }

// combine works on the queues of a and b one by one; one that is missing
// counts 0.
func combine(a, b []port.QueueStats, op func(a, b uint64) uint64) []port.QueueStats {
	out := make([]port.QueueStats, max(len(a), len(b)))
	copy(out, a)
	for i, q := range b {
		out[i] = port.QueueStats{
			Packets: op(out[i].Packets, q.Packets), Bytes: op(out[i].Bytes, q.Bytes),
			Missed: op(out[i].Missed, q.Missed), Errors: op(out[i].Errors, q.Errors), NoBuf: op(out[i].NoBuf, q.NoBuf),
		}
	}
	return out
}

// Faults says which queues the device has broken; see port.Faulter.
func (d *Device) Faults() (rx, tx []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return port.FaultsOf(d.rx), port.FaultsOf(d.tx)
}
