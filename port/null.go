package port

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"vionet/mbuf"
)

// NullConfig says what a null port does. It has the arguments of DPDK's
// net_null.
type NullConfig struct {
	Name    string // "net_null0" if empty
	Devargs string // the arguments as they were written, for people
	Size    int    // bytes of each received frame; 64 if 0
	// Copy makes every burst copy the bytes of the frames, so that the cost
	// of touching the data is part of what is measured.
	Copy bool
	// NoRx makes the port receive nothing.
	NoRx bool
}

// Bounds of a null port.
const (
	nullFrame     = 64
	nullMaxQueues = 1024
	nullMaxDesc   = 65535
	nullMinMTU    = 68
	nullMaxMTU    = math.MaxUint16 - 18
	nullSpeed     = 10_000
)

// null is a port without a device: receive bursts are always full, and what
// is sent is freed at once. The contents of received frames are whatever the
// buffers held before, unless Copy is set.
type null struct {
	cfg NullConfig
	mac net.HardwareAddr

	mu      sync.Mutex
	conf    Config
	started bool
	closed  bool
	promisc bool
	rx      []*nullRx
	tx      []*nullTx
}

// NewNull makes a null port. Its MAC address is derived from its name.
func NewNull(cfg NullConfig) (Port, error) {
	if cfg.Name == "" {
		cfg.Name = "net_null0"
	}
	if cfg.Size == 0 {
		cfg.Size = nullFrame
	}
	if cfg.Size < 0 || cfg.Size > math.MaxUint16 {
		return nil, fmt.Errorf("port: %s: size=%d: %w: must be between 1 and %d", cfg.Name, cfg.Size, ErrInvalid, math.MaxUint16)
	}
	h := fnv.New64a()
	h.Write([]byte(cfg.Name))
	mac := net.HardwareAddr(h.Sum(nil)[:6])
	mac[0] = mac[0]&^1 | 2 // unicast, locally administered
	return &null{cfg: cfg, mac: mac, conf: Config{RxQueues: 1, TxQueues: 1}}, nil
}

func (p *null) Name() string { return p.cfg.Name }

func (p *null) Info() Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := Info{
		Name: p.cfg.Name, Driver: "net_null", Devargs: p.cfg.Devargs,
		MAC: p.mac, MTU: p.conf.MTU, MinMTU: nullMinMTU, MaxMTU: nullMaxMTU,
		RxQueues: p.conf.RxQueues, TxQueues: p.conf.TxQueues,
		MaxRxQueues: nullMaxQueues, MaxTxQueues: nullMaxQueues,
		RxDesc: p.conf.RxDesc, TxDesc: p.conf.TxDesc, MaxDesc: nullMaxDesc,
		MaxRxPktLen: math.MaxUint16, MaxMACs: 1, Promiscuous: p.promisc, Paths: p.Paths(),
	}
	if info.MTU == 0 {
		info.MTU = 1500
	}
	return info
}

var nullLimits = Limits{
	RxQueues: nullMaxQueues, TxQueues: nullMaxQueues, OffloadHint: "a null port has none",
	MinMTU: nullMinMTU, MaxMTU: nullMaxMTU,
}

func (p *null) Configure(c Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case p.started:
		return fmt.Errorf("port: %s: %w: stop the port before configuring it", p.cfg.Name, ErrState)
	}
	c, err := nullLimits.Fit(c)
	if err != nil {
		return fmt.Errorf("port: %s: %w", p.cfg.Name, err)
	}
	if p.cfg.Size > c.Pool.BufSize()-mbuf.Headroom {
		return fmt.Errorf("port: %s: frames of %d bytes: %w: buffers hold %d", p.cfg.Name, p.cfg.Size, ErrInvalid, c.Pool.BufSize()-mbuf.Headroom)
	}
	p.conf = c
	return nil
}

func (p *null) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case p.conf.Pool == nil:
		return fmt.Errorf("port: %s: %w: configure the port before starting it", p.cfg.Name, ErrState)
	case p.started:
		return fmt.Errorf("port: %s: %w: it is started already", p.cfg.Name, ErrState)
	}
	p.rx = resize(p.rx, p.conf.RxQueues, func() *nullRx { return new(nullRx) })
	p.tx = resize(p.tx, p.conf.TxQueues, func() *nullTx { return new(nullTx) })
	for _, q := range p.rx {
		q.own = p.conf.Pool.NewCache(0)
		q.cache, q.size, q.silent = q.own, p.cfg.Size, p.cfg.NoRx
		if p.cfg.Copy {
			q.frame = make([]byte, p.cfg.Size)
		}
	}
	for _, q := range p.tx {
		q.own = p.conf.Pool.NewCache(0)
		q.cache = q.own
		if p.cfg.Copy {
			q.sink = make([]byte, math.MaxUint16)
		}
	}
	p.started = true
	return nil
}

// resize makes queues n long and keeps those that are there with their
// counters, which live as long as the port does.
func resize[Q any](queues []Q, n int, fresh func() Q) []Q {
	for len(queues) < n {
		queues = append(queues, fresh())
	}
	return queues[:n]
}

func (p *null) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	return nil
}

func (p *null) stop() {
	if !p.started {
		return
	}
	for _, q := range p.rx {
		q.cache.Flush()
	}
	for _, q := range p.tx {
		q.cache.Flush()
	}
	p.started = false
}

func (p *null) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.closed = true
	return nil
}

func (p *null) RxQueue(i int) RxQueue { return p.rx[i] }
func (p *null) TxQueue(i int) TxQueue { return p.tx[i] }

func (p *null) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Rx: make([]QueueStats, len(p.rx)), Tx: make([]QueueStats, len(p.tx))}
	for i, q := range p.rx {
		s.Rx[i] = QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), NoBuf: q.noBuf.Load()}
	}
	for i, q := range p.tx {
		s.Tx[i] = QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load()}
	}
	return s.Totals()
}

// Faults says which queues have stopped for good.
func (p *null) Faults() (rx, tx []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		return nil, nil
	}
	return FaultsOf(p.rx), FaultsOf(p.tx)
}

func (p *null) ResetStats() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.rx {
		q.packets.Store(0)
		q.bytes.Store(0)
		q.noBuf.Store(0)
	}
	for _, q := range p.tx {
		q.packets.Store(0)
		q.bytes.Store(0)
	}
}

func (p *null) Link() Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Link{Up: p.started, Speed: nullSpeed, FullDuplex: true}
}

func (p *null) Paths() Paths {
	path := Path{Name: "null", Reason: "there is no device"}
	return Paths{Rx: path, Tx: path}
}

func (p *null) SetPromiscuous(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promisc = on
	return nil
}

// Notify does nothing: nothing ever happens to a null port.
func (p *null) Notify(func(Event)) {}

// nullRx receives full bursts of frames.
type nullRx struct {
	own    *mbuf.Cache // flushed when another takes its place
	cache  *mbuf.Cache // the one in use
	size   int
	silent bool
	frame  []byte // what Copy fills each frame with

	packets, bytes, noBuf atomic.Uint64
}

func (q *nullRx) Burst(bufs []*mbuf.Buf) int {
	if q.silent {
		return 0
	}
	n := q.cache.Get(bufs)
	for _, b := range bufs[:n] {
		b.SetReceived(mbuf.Headroom, q.size)
		if q.frame != nil {
			copy(b.Bytes(), q.frame)
		}
	}
	q.packets.Add(uint64(n))
	q.bytes.Add(uint64(n * q.size))
	if n < len(bufs) {
		q.noBuf.Add(uint64(len(bufs) - n))
	}
	return n
}

func (q *nullRx) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

func (q *nullRx) Err() error { return nil }

// Wait returns at once: there are always packets. On a silent port there never
// are any.
func (q *nullRx) Wait(ctx context.Context) error {
	if q.silent {
		<-ctx.Done()
	}
	return ctx.Err()
}

// nullTx frees what it is given.
type nullTx struct {
	own   *mbuf.Cache
	cache *mbuf.Cache
	sink  []byte // where Copy takes each frame

	packets, bytes atomic.Uint64
}

func (q *nullTx) Burst(bufs []*mbuf.Buf) int {
	size := 0
	for _, b := range bufs {
		size += b.PacketLen()
		if q.sink != nil {
			for seg := b; seg != nil; seg = seg.Next() {
				copy(q.sink, seg.Bytes())
			}
		}
	}
	q.cache.Put(bufs)
	q.packets.Add(uint64(len(bufs)))
	q.bytes.Add(uint64(size))
	return len(bufs)
}

func (q *nullTx) Reclaim() int { return 0 }

func (q *nullTx) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

func (q *nullTx) Err() error { return nil }
