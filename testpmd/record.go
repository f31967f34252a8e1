package testpmd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/testpmd/engine"
)

func recordCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set record-core-cycles (on|off)", help: "Choose whether forwarding measures what a packet costs, from its next start on.", run: func(c *Console, a args) { c.Options.RecordCycles = a.on(2) }},
		{section: configSection, pattern: "set record-burst-stats (on|off)", help: "Choose whether forwarding counts how full its bursts are, from its next start on.", run: func(c *Console, a args) { c.Options.RecordBursts = a.on(2) }},
	}
}

// records are what forwarding keeps beside its counters, where that was asked
// for.
type records struct {
	busy   atomic.Int64 // nanoseconds in bursts with packets, of all cores
	cycles bool
	bursts map[*engine.Stream]*burstRecord // nil: none
}

// burstRecord counts the bursts of a stream by their sizes.
type burstRecord struct{ rx, tx burstSizes }

// burstSizes counts bursts by the number of their packets. The goroutine of the
// stream writes it, any other may read it.
type burstSizes [engine.MaxBurst + 1]atomic.Uint64

func (b *burstSizes) reset() {
	for i := range b {
		b[i].Store(0)
	}
}

func newRecords(opts Options) *records {
	r := &records{cycles: opts.RecordCycles}
	if opts.RecordBursts {
		r.bursts = map[*engine.Stream]*burstRecord{}
	}
	return r
}

func (r *records) reset() {
	r.busy.Store(0)
	for _, b := range r.bursts {
		b.rx.reset()
		b.tx.reset()
	}
}

// watch puts the counters of bursts between the stream and its queues.
func (r *records) watch(s *engine.Stream) {
	if r.bursts == nil {
		return
	}
	b := &burstRecord{}
	r.bursts[s] = b
	s.Rx, s.Tx = countedRx{s.Rx, &b.rx}, countedTx{s.Tx, &b.tx}
}

// timed gives forward, with a clock around it if cycles are measured.
func (r *records) timed(forward func(*engine.Stream) int) func(*engine.Stream) int {
	if !r.cycles {
		return forward
	}
	return func(s *engine.Stream) int {
		begin := time.Now()
		n := forward(s)
		if n > 0 {
			r.busy.Add(int64(time.Since(begin)))
		}
		return n
	}
}

// countedRx is a receive queue whose bursts are counted.
type countedRx struct {
	port.RxQueue
	sizes *burstSizes
}

func (q countedRx) Burst(bufs []*mbuf.Buf) int {
	n := q.RxQueue.Burst(bufs)
	q.sizes[n].Add(1)
	return n
}

// countedTx is a transmit queue whose bursts are counted.
type countedTx struct {
	port.TxQueue
	sizes *burstSizes
}

func (q countedTx) Burst(bufs []*mbuf.Buf) int {
	n := q.TxQueue.Burst(bufs)
	q.sizes[n].Add(1)
	return n
}

// text writes both directions of a stream.
func (b *burstRecord) text() string {
	if b == nil {
		return ""
	}
	return b.rx.text("RX") + b.tx.text("TX")
}

// text writes how many bursts there were and what part of them was empty, and
// of the two sizes that were seen most.
func (b *burstSizes) text(dir string) string {
	type share struct {
		size  int
		count uint64
	}
	most := [3]share{{0, b[0].Load()}}
	total := most[0].count
	for size := 1; size < len(b); size++ {
		n := b[size].Load()
		total += n
		switch {
		case n > most[1].count:
			most[1], most[2] = share{size, n}, most[1]
		case n > most[2].count:
			most[2] = share{size, n}
		}
	}
	if total == 0 {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "  %s-bursts : %d [", dir, total)
	seen, percents := uint64(0), 0
	for _, s := range most {
		seen += s.count
		if seen == total {
			fmt.Fprintf(&text, "%d%% of %d pkts]\n", 100-percents, s.size)
			return text.String()
		}
		percent := int(float64(s.count) / float64(total) * 100)
		percents += percent
		fmt.Fprintf(&text, "%d%% of %d pkts + ", percent, s.size)
	}
	fmt.Fprintf(&text, "%d%% of other]\n", 100-percents)
	return text.String()
}

// cyclesText writes what a packet costs in cycles of the clock that the machine
// names.
func (r *records) cyclesText(mode *engine.Engine, packets uint64) string {
	if !r.cycles || packets == 0 {
		return ""
	}
	mhz := clockMHz()
	cycles := uint64(float64(r.busy.Load()) * mhz / 1000)
	return fmt.Sprintf("\n  CPU cycles/packet=%.2f (total cycles=%d / total %s packets=%d) at %d MHz Clock\n",
		float64(cycles)/float64(packets), cycles, mode.Name, packets, uint64(mhz))
}

// usualMHz stands for the clock of a machine that does not name it: a cycle is
// then a nanosecond.
const usualMHz = 1000

// clockMHz is the machine's clock as its kernel has it.
func clockMHz() float64 {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "cpu MHz" {
			if mhz, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && mhz > 0 {
				return mhz
			}
		}
	}
	return usualMHz
}
