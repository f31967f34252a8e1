package packetsource

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"vionet/capture"
	"vionet/mbuf"
	"vionet/port"
)

// Config is how a Handle works.
type Config struct {
	// Pool gives the buffers for frames that are written; must be given. It is
	// usually the one that the port was configured with.
	Pool *mbuf.Pool
	// Spin is how long a reader polls without a packet before it sleeps; 0: not at
	// all. See port.NewPoller.
	Spin time.Duration
}

// Handle reads from all receive queues of a port and writes to its first transmit
// queue. Any goroutine may call its methods: readers wait for each other, and so do
// writers.
type Handle struct {
	port     port.Port
	release  func() // of the claim on the port
	closing  chan struct{}
	closed   sync.Once
	closeErr error
	clock    capture.Clock

	reading sync.Mutex // held by who reads
	rx      []port.RxQueue
	broken  []bool // whether the queue's error was told
	queue   int    // that waiting was received from
	poller  *port.Poller
	pkts    [burst]*mbuf.Buf
	waiting []*mbuf.Buf // the part of pkts that was not read yet
	at      time.Time   // when they were received
	lent    *mbuf.Buf   // whose bytes ZeroCopyReadPacketData gave away last; nil: none
	scratch []byte      // a lent frame that lay in several buffers

	writing  sync.Mutex // held by who writes
	tx       port.TxQueue
	pool     *mbuf.Pool
	maxFrame int // bytes
}

var (
	_ gopacket.PacketDataSource         = (*Handle)(nil)
	_ gopacket.ZeroCopyPacketDataSource = (*Handle)(nil)
)

// burst is the number of packets that are received at a time.
const burst = 32

// New makes a handle on a started port that was configured with RxInterrupts. The
// port's queues are the handle's until Close, which comes before the port stops. The
// error wraps port.ErrInvalid without a pool, port.ErrState when the port is not
// started or another adapter has it, and port.ErrNotSupported when one cannot sleep
// on the port.
func New(p port.Port, cfg Config) (*Handle, error) {
	if cfg.Pool == nil {
		return nil, fmt.Errorf("packetsource: %w: a pool for written frames is missing", port.ErrInvalid)
	}
	release, err := port.Claim(p, "package packetsource")
	if err != nil {
		return nil, fmt.Errorf("packetsource: %w", err)
	}
	h := &Handle{port: p, release: release, closing: make(chan struct{}), clock: capture.NewClock(), pool: cfg.Pool}
	if err := h.open(cfg); err != nil {
		release()
		return nil, fmt.Errorf("packetsource: %s: %w", p.Name(), err)
	}
	return h, nil
}

func (h *Handle) open(cfg Config) error {
	info := h.port.Info()
	if f, ok := h.port.(port.Faulter); ok {
		if rx, _ := f.Faults(); len(rx) == 0 {
			return fmt.Errorf("%w: start the port first", port.ErrState)
		}
	}
	var alarms []port.Alarm
	for i := range max(info.RxQueues, 1) {
		q := h.port.RxQueue(i)
		alarm, err := port.AlarmOf(q)
		if err != nil {
			return err
		}
		h.rx, alarms = append(h.rx, q), append(alarms, alarm)
	}
	h.broken = make([]bool, len(h.rx))
	h.tx = h.port.TxQueue(0)
	h.maxFrame = info.MTU + overhead
	var err error
	h.poller, err = port.NewPoller(cfg.Spin, alarms...)
	return err
}

// LinkType is what the frames begin with: an Ethernet header.
func (h *Handle) LinkType() layers.LinkType { return layers.LinkTypeEthernet }

// Close ends reads and writes that wait, frees what was not read, and leaves the
// port to others, still started. Bytes that ZeroCopyReadPacketData gave are not to
// be touched any more. A second call does nothing.
func (h *Handle) Close() error {
	h.closed.Do(func() {
		close(h.closing)
		h.poller.Wake()
		h.reading.Lock()
		defer h.reading.Unlock()
		h.writing.Lock()
		defer h.writing.Unlock()
		h.takeBack()
		for _, b := range h.waiting {
			b.Free()
		}
		h.waiting = nil
		h.closeErr = h.poller.Close()
		h.release()
	})
	return h.closeErr
}

// isClosed reports whether Close was called.
func (h *Handle) isClosed() bool {
	select {
	case <-h.closing:
		return true
	default:
		return false
	}
}

// errEnd is what readers of a closed handle get. gopacket ends a PacketSource at
// io.EOF, and takes most other errors for a hindrance that passes.
var errEnd = fmt.Errorf("packetsource: %w: %w", port.ErrClosed, io.EOF)
