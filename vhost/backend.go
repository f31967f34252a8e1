package vhost

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vionet/virtio"
)

// backendFeatures are the device features that a Backend can have.
const backendFeatures = virtio.NetCSUM | virtio.NetGuestCSUM |
	virtio.NetGuestTSO4 | virtio.NetGuestTSO6 | virtio.NetHostTSO4 | virtio.NetHostTSO6 |
	virtio.NetMrgRxbuf | virtio.NetMQ | virtio.AnyLayout | virtio.IndirectDesc | virtio.Version1

// BackendConfig says what a back end offers.
type BackendConfig struct {
	Pairs   int             // queue pairs, 1 to 128; 0: 1
	Mask    virtio.Features // features not to offer
	Timeout time.Duration   // for a message of the front end to arrive whole; 0: 5 s
	Log     *slog.Logger    // nil: silence
}

// Backend is the device's half of a vhost-user device. It serves one front end
// at a time, and the next one when that has gone. Frames move through its
// queues, which stay the same over any number of front ends.
type Backend struct {
	cfg      BackendConfig
	offer    virtio.Features
	protocol protocolFeatures
	queues   []*Queue

	listener *net.UnixListener // nil: front ends come through connect only
	conns    chan *net.UnixConn
	kicked   chan struct{}
	stop     chan struct{}
	workers  sync.WaitGroup

	mu      sync.Mutex
	current *net.UnixConn
	closed  bool
}

// Listen makes a back end that listens on the unix socket at path. A socket
// file that nobody listens on any more is replaced. A path that starts with
// "@" is an abstract socket.
func Listen(path string, cfg BackendConfig) (*Backend, error) {
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	if b.listener, err = listen(path); err != nil {
		return nil, err
	}
	b.run()
	return b, nil
}

func listen(path string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if errors.Is(err, unix.EADDRINUSE) && isStale(path) {
		os.Remove(path)
		l, err = net.ListenUnix("unix", addr)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("vhost: %s is in use: stop the other back end, or choose another path: %w", path, unix.EADDRINUSE)
	}
	if err != nil {
		return nil, fmt.Errorf("vhost: listen on %s: %w", path, err)
	}
	return l, nil
}

// isStale reports whether path is the socket of a listener that has died.
func isStale(path string) bool {
	if st, err := os.Lstat(path); err != nil || st.Mode().Type() != os.ModeSocket {
		return false
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

func newBackend(cfg BackendConfig) (*Backend, error) {
	if cfg.Pairs == 0 {
		cfg.Pairs = 1
	}
	if cfg.Pairs < 1 || cfg.Pairs > maxPairs {
		return nil, fmt.Errorf("vhost: a back end with %d queue pairs: must be 1 to %d", cfg.Pairs, maxPairs)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Backend{
		cfg:      cfg,
		offer:    backendFeatures &^ cfg.Mask,
		protocol: knownProtocol,
		conns:    make(chan *net.UnixConn),
		kicked:   make(chan struct{}, 1),
		stop:     make(chan struct{}),
	}
	if cfg.Pairs == 1 {
		b.offer &^= virtio.NetMQ
	}
	for i := range 2 * cfg.Pairs {
		b.queues = append(b.queues, newQueue(i, cfg.Log))
	}
	return b, nil
}

// run starts the goroutines: one takes connections, one serves them.
func (b *Backend) run() {
	b.workers.Go(b.serve)
	if b.listener != nil {
		b.workers.Go(b.accept)
	}
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
		select {
		case b.conns <- c:
		case <-b.stop:
			c.Close()
			return
		}
	}
}

// connect makes a connection to the back end within this process. It fails
// when the back end has another front end.
func (b *Backend) connect() (*net.UnixConn, error) {
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
	case <-timer.C:
		err = errors.New("vhost: the back end serves another front end: close that first")
	}
	ours.Close()
	theirs.Close()
	return nil, err
}

func socketPair() (a, b *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "vhost-user")
		conn, connErr := net.FileConn(f) // a duplicate
		f.Close()
		conns[i], err = conn, errors.Join(err, connErr)
	}
	if err != nil {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return conns[0].(*net.UnixConn), conns[1].(*net.UnixConn), nil
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
	err := s.serve()
	c.Close()
	s.end()
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
		b.current.Close()
	}
	b.mu.Unlock()
	close(b.stop)
	if b.listener != nil {
		b.listener.Close()
	}
	b.workers.Wait()
	return nil
}
