package engine

import (
	"slices"
	"time"

	"vionet/driver"
	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
)

// MaxBurst is the largest number of packets in a burst.
const MaxBurst = 512

// StreamConfig is what a stream is made of. All of it stays as it is while
// the stream runs.
type StreamConfig struct {
	RxPort, RxQueue int // numbers, for people and statistics
	TxPort, TxQueue int
	Rx              port.RxQueue
	Tx              port.TxQueue

	RxLends bool // received packets may be lent: see mbuf.Lender
	TxDMA   bool // a device reads sent packets, which must not be lent then

	Burst   int           // packets at a time, at most MaxBurst
	Retries int           // how often to offer again what Tx did not take
	Delay   time.Duration // between two retries

	Source, Peer [6]byte // MAC addresses of the Tx port and of who is behind it
	// TxOffloads are those that are active on the Tx port.
	TxOffloads port.TxOffloads
	VLAN       uint16 // the tag to insert when TxVLANInsert is active

	TxSegs    []int     // segment lengths in bytes of generated packets
	TxSplit   SplitMode // what TxSegs means for each packet
	MultiFlow bool      // mode txonly changes the source address from packet to packet
	// TxAddrs and TxPorts are the source and the destination of packets that
	// mode txonly makes; zero stands for the usual ones.
	TxAddrs [2][4]byte
	TxPorts [2]uint16
	Flows   int // of mode flowgen; DefaultFlows if 0
	Clones  int // how often mode flowgen sends each packet again

	TSOSize     int  // payload bytes of a TCP segment in mode csum; 0: no TSO
	KeepMACs    bool // mode csum leaves the MAC addresses alone
	ParseTunnel bool // mode csum looks into tunnels
	TunnelPorts TunnelPorts

	Noise Noise // of mode noisy

	Watch *Watch // nil: nobody looks at packets
}

// Counters are what a stream did. Any goroutine may read them at any time.
type Counters struct {
	// RxPackets were received, TxPackets sent, and TxDropped freed for want of room.
	RxPackets, TxPackets, TxDropped port.Counter
	// BadIPSum and BadL4Sum are the packets of mode csum that the Rx port
	// found a wrong checksum in.
	BadIPSum, BadL4Sum port.Counter
	// Batches are what mode flowbatch sorted bursts into, and NewFlows the flows
	// that it did not know.
	Batches, NewFlows port.Counter
}

// Reset sets the counters to zero, those of waiting packets too.
func (s *Stream) Reset() {
	s.Counters.reset()
	if s.buffer != nil {
		s.buffer.ResetStats()
	}
}

func (c *Counters) reset() {
	c.RxPackets.Reset()
	c.TxPackets.Reset()
	c.TxDropped.Reset()
	c.BadIPSum.Reset()
	c.BadL4Sum.Reset()
	c.Batches.Reset()
	c.NewFlows.Reset()
}

// Stream is the way of packets from one receive queue to one transmit queue.
// One goroutine at a time drives it; only its counters are open to others.
type Stream struct {
	StreamConfig
	Counters

	cache   *mbuf.Cache
	buffer  *driver.TxBuffer // what Tx is then; nil: packets do not wait
	bufs    []*mbuf.Buf
	segs    []*mbuf.Buf // further segments of generated packets
	udp     template    // of mode txonly
	variant uint8       // the flow of the last packet of mode txonly
	flow    flows       // of mode flowgen
	noise   *noise      // of mode noisy; nil: none
	sorter  *sorter     // of mode flowbatch, from its first burst on
	dice    dice

	layers layers // of the packet that mode csum works on

	// Large packets of the burst that segment is to look at, and the scratch
	// for it.
	large     int
	segmenter offload.Segmenter
	segmented []*mbuf.Buf

	// Scratch of a packet that is split.
	one       [1]*mbuf.Buf
	lengths   []int
	splitSegs []*mbuf.Buf

	stalled bool // the last burst did not go whole
}

// NewStream prepares a stream. It has no cache yet: see UseCache.
func NewStream(cfg StreamConfig) *Stream {
	s := &Stream{StreamConfig: cfg, bufs: make([]*mbuf.Buf, cfg.Burst), dice: newDice()}
	s.TxSegs = slices.Clone(cfg.TxSegs)
	s.segs = make([]*mbuf.Buf, cfg.Burst*max(len(cfg.TxSegs)-1, 0))
	s.lengths, s.splitSegs = make([]int, 0, len(cfg.TxSegs)), make([]*mbuf.Buf, len(cfg.TxSegs))
	s.udp = newTxTemplate(cfg)
	s.flow = newFlows(cfg)
	s.noise = newNoise(cfg)
	s.TunnelPorts = cfg.TunnelPorts.orDefault()
	if s.Watch == nil {
		s.Watch = new(Watch)
	}
	return s
}

// UseCache makes c the place where the stream and its queues take buffers
// from and give them back to. c belongs to the goroutine that drives the
// stream.
func (s *Stream) UseCache(c *mbuf.Cache) {
	s.cache = c
	s.Rx.UseCache(c)
	s.Tx.UseCache(c)
}

// Drain throws away what waits in the receive queue, up to limit packets.
func (s *Stream) Drain(limit int) {
	for limit > 0 {
		n := s.Rx.Burst(s.bufs)
		if n == 0 {
			return
		}
		s.cache.Put(s.bufs[:n])
		limit -= n
	}
}

// Stalled reports whether the transmit queue had no room for the whole of the
// last burst. The goroutine that drives the stream calls it, as it does Due.
func (s *Stream) Stalled() bool { return s.stalled }

// Due is when the stream has something to do again even if nothing comes: it
// holds packets back until then at most. It is zero when it holds none, or for as
// long as nothing pushes them out.
func (s *Stream) Due() time.Time {
	if n := s.noise; n != nil && n.count > 0 && n.flush > 0 {
		return n.moved.Add(n.flush)
	}
	return time.Time{}
}

// Finish lets go of the packets that the stream still holds when forwarding
// ends. Those that wait for others to leave with are sent, as far as the queue
// takes them; the rest is freed and counted as dropped.
func (s *Stream) Finish() {
	for held := s.noise.take(s.bufs); len(held) > 0; held = s.noise.take(s.bufs) {
		s.TxDropped.Add(uint64(len(held)))
		s.cache.Put(held)
	}
	if s.buffer != nil {
		s.buffer.Close()
	}
}

// receive fills the burst from the receive queue.
func (s *Stream) receive() []*mbuf.Buf {
	n := s.Rx.Burst(s.bufs)
	if n > 0 {
		s.RxPackets.Add(uint64(n))
		s.Watch.received(s.RxPort, s.RxQueue, s.bufs[:n])
	}
	return s.bufs[:n]
}

// send transmits pkts and frees those that the queue does not take. Where large
// packets were cut, that is more than one burst.
func (s *Stream) send(pkts []*mbuf.Buf) {
	if s.RxLends && s.TxDMA {
		pkts = s.own(pkts)
	}
	for burst := range slices.Chunk(pkts, s.Burst) {
		s.sendBurst(burst)
	}
}

func (s *Stream) sendBurst(pkts []*mbuf.Buf) {
	s.Watch.sending(s.TxPort, s.TxQueue, pkts)
	if s.buffer != nil {
		s.stalled = false
		s.buffer.Burst(pkts) // and count them when they go
		return
	}
	n := s.Tx.Burst(pkts)
	for try := 0; n < len(pkts) && try < s.Retries; try++ {
		pause(s.Delay)
		n += s.Tx.Burst(pkts[n:])
	}
	if n > 0 {
		s.TxPackets.Add(uint64(n))
	}
	if s.stalled = n < len(pkts); s.stalled {
		s.TxDropped.Add(uint64(len(pkts) - n))
		s.cache.Put(pkts[n:])
	}
}

// pause waits without leaving the processor: the time is far below what a
// sleep takes.
func pause(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}
