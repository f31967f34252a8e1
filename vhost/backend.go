package vhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"vionet/virtio"
)

// backendFeatures are the device features that a Backend can have.
const backendFeatures = virtio.NetCSUM | virtio.NetGuestCSUM |
	virtio.NetGuestTSO4 | virtio.NetGuestTSO6 | virtio.NetGuestECN |
	virtio.NetHostTSO4 | virtio.NetHostTSO6 | virtio.NetHostECN |
	virtio.NetMrgRxbuf | virtio.NetMQ | virtio.AnyLayout | virtio.IndirectDesc | virtio.EventIdx |
	virtio.Version1 | virtio.RingPacked | virtio.InOrder | virtio.AccessPlatform | virtio.VhostLogAll

// BackendConfig says what a back end offers.
type BackendConfig struct {
	Pairs   int              // queue pairs, 1 to 128; 0: 1
	Packed  bool             // offer packed virtqueues beside split ones
	MAC     net.HardwareAddr // the address that the driver shall use; nil: its own
	MTU     int              // the MTU in bytes that the driver shall use, 68 to 65535; 0: any
	IOMMU   bool             // offer to work behind the guest's IOMMU (ACCESS_PLATFORM), without indirect descriptors
	Mask    virtio.Features  // features not to offer
	Timeout time.Duration    // for a message of the front end to arrive whole; 0: 5 s
	Log     *slog.Logger     // nil: silence

	// SocketMode is who may connect to the socket that Listen makes; 0: its
	// user and root only (0600).
	SocketMode fs.FileMode

	withhold protocolFeatures // not to offer
}

// admitTime is how long the end of a session may take before it is worth telling
// that the next front end waits for it.
const admitTime = 100 * time.Millisecond

// Backend is the device's half of a vhost-user device. It serves one front end
// at a time, and the next one when that has gone. Frames move through its
// queues, which stay the same over any number of front ends.
type Backend struct {
	cfg    BackendConfig
	offer  virtio.Features
	queues []*Queue

	listener *listener // nil: front ends come through connect, or seek
	seek     string    // where a front end listens; "": nowhere
	conns    chan *net.UnixConn
	kicked   chan struct{}
	changed  chan struct{} // a signal after each change of running
	running  atomic.Bool   // a front end has rings running
	stop     chan struct{}
	workers  sync.WaitGroup

	announcement atomic.Pointer[announcement] // to be received next; nil: none

	mu       sync.Mutex
	current  *net.UnixConn
	closed   bool
	requests *conn // for messages to the front end; nil: it wants none
	mac      net.HardwareAddr
	mtu      int
	linkDown bool
}

// Listen makes a back end that listens on the unix socket at path. A socket
// file that nobody listens on any more is replaced. A path that starts with
// "@" is an abstract socket.
func Listen(path string, cfg BackendConfig) (*Backend, error) {
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	if b.listener, err = listen(path, cfg.SocketMode); err != nil {
		return nil, err
	}
	b.run()
	return b, nil
}

func newBackend(cfg BackendConfig) (*Backend, error) {
	if cfg.Pairs == 0 {
		cfg.Pairs = 1
	}
	if cfg.Pairs < 1 || cfg.Pairs > maxPairs {
		return nil, fmt.Errorf("vhost: a back end with %d queue pairs: must be 1 to %d", cfg.Pairs, maxPairs)
	}
	if cfg.MAC != nil && len(cfg.MAC) != 6 {
		return nil, fmt.Errorf("vhost: a MAC address of %d bytes: must have 6", len(cfg.MAC))
	}
	if cfg.MTU != 0 && (cfg.MTU < virtio.MinMTU || cfg.MTU > 65535) {
		return nil, fmt.Errorf("vhost: an MTU of %d: must be %d to 65535", cfg.MTU, virtio.MinMTU)
	}
	if !cfg.Packed {
		cfg.Mask |= virtio.RingPacked
	}
	if cfg.IOMMU {
		// A table of indirect descriptors is looked at in one piece, which it
		// need not be behind an IOMMU, and cannot be put back when a
		// translation is missing.
		cfg.Mask |= virtio.IndirectDesc
	} else {
		cfg.Mask |= virtio.AccessPlatform
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Backend{
		cfg:     cfg,
		offer:   (backendFeatures | cfg.offerConfig()) &^ cfg.Mask,
		conns:   make(chan *net.UnixConn),
		kicked:  make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		stop:    make(chan struct{}),
		mac:     cfg.MAC,
		mtu:     cfg.MTU,
	}
	if cfg.Pairs == 1 {
		b.offer &^= virtio.NetMQ
	}
	for i := range 2 * cfg.Pairs {
		b.queues = append(b.queues, newQueue(i, cfg.Log))
	}
	return b, nil
}

// run starts the goroutines: one takes connections, one serves them; or one
// makes connections and serves them.
func (b *Backend) run() {
	if b.seek != "" {
		b.workers.Go(func() { b.connectOut(b.seek) })
		return
	}
	b.workers.Go(b.serve)
	if b.listener != nil {
		b.workers.Go(b.accept)
	}
}

// protocol is what it offers of the protocol. It has no log for a guest behind an
// IOMMU, which keeps QEMU from migrating it: one in four such guests died in its
// page lists after the move. QEMU before 9.0 loses writes of an emulated processor
// there, which probably is the reason.
func (b *Backend) protocol() protocolFeatures {
	offer := backendProtocol &^ b.cfg.withhold
	if b.cfg.IOMMU {
		offer &^= protocolLogShmFD
	}
	return offer
}

// Pairs is the number of queue pairs.
func (b *Backend) Pairs() int { return len(b.queues) / 2 }

// RxQueue is the queue that the driver receives on: frames go in with Enqueue.
func (b *Backend) RxQueue(pair int) *Queue { return b.queues[virtio.RxQueue(pair)] }

// TxQueue is the queue that the driver transmits on: frames come out with
// Dequeue.
func (b *Backend) TxQueue(pair int) *Queue { return b.queues[virtio.TxQueue(pair)] }

// Kicked gives a signal, not one for each, after kicks of the front end and
// after changes of what is running.
func (b *Backend) Kicked() <-chan struct{} { return b.kicked }

func (b *Backend) wake() {
	select {
	case b.kicked <- struct{}{}:
	default:
	}
}

// noteRunning says whether a front end has rings running.
func (b *Backend) noteRunning(now bool) {
	if b.running.Swap(now) == now {
		return
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *Backend) accept() {
	for {
		c, err := b.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			b.cfg.Log.Error("vhost: accept", "cause", err)
			select {
			case <-time.After(100 * time.Millisecond): // such as no free descriptor
				continue
			case <-b.stop:
				return
			}
		}
		if !b.admit(c) {
			c.Close()
			return
		}
	}
}

// admit hands a connection over to be served, when the front end before it has
// gone. It is false when the back end is closed before.
func (b *Backend) admit(c *net.UnixConn) bool {
	select {
	case b.conns <- c:
		return true
	case <-time.After(admitTime):
	case <-b.stop:
		return false
	}
	b.cfg.Log.Warn("vhost: a front end has to wait, the one before it is still connected")
	select {
	case b.conns <- c:
		return true
	case <-b.stop:
		return false
	}
}

// connect makes a connection to the back end within this process. It waits, for
// a time-out, until the front end before this one has gone.
func (b *Backend) connect(ctx context.Context) (*net.UnixConn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("vhost: socketpair: %w", err)
	}
	timer := time.NewTimer(b.cfg.Timeout)
	defer timer.Stop()
	select {
	case b.conns <- theirs:
		return ours, nil
	case <-b.stop:
		err = fmt.Errorf("vhost: the back end was closed: %w", net.ErrClosed)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = errors.New("vhost: the back end serves another front end: close that first")
	}
	ours.Close()
	theirs.Close()
	return nil, err
}

// serve runs one session after the other.
func (b *Backend) serve() {
	for {
		select {
		case c := <-b.conns:
			if b.adopt(c) {
				b.serveOne(c)
			}
		case <-b.stop:
			return
		}
	}
}

// adopt makes c the connection that Close will close, unless it came too late.
func (b *Backend) adopt(c *net.UnixConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		c.Close()
		return false
	}
	b.current = c
	return true
}

func (b *Backend) serveOne(c *net.UnixConn) {
	s := newSession(b, &conn{sock: c, timeout: b.cfg.Timeout})
	b.cfg.Log.Debug("vhost: a front end has connected")
	stopWatch := s.watchCalls()
	err := s.serve()
	// The front end takes the end of the connection for the end of all use of
	// its memory.
	s.end()
	stopWatch()
	b.noteRunning(false)
	c.Close()
	b.wake()
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		b.cfg.Log.Error("vhost: connection to the front end dropped", "cause", err)
	}
}

// Close ends the connection, stops every queue and gives everything back. A
// second call does nothing.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	if b.current != nil {
		b.current.CloseRead() // the session ends, and then the connection
	}
	b.mu.Unlock()
	close(b.stop)
	if b.listener != nil {
		b.listener.Close()
	}
	b.workers.Wait()
	return nil
}
