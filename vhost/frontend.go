package vhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Limits and defaults of a front end.
const (
	maxPairs         = 128
	maxQueueSize     = 32768
	defaultQueueSize = 256
	defaultTimeout   = 5 * time.Second

	defaultConnectTimeout = time.Minute
)

// frontendFeatures are the device features that make sense without a control
// queue and without a configuration space of the device's own; a back end's
// other bits are kept from the driver.
const frontendFeatures = virtio.NetCSUM | virtio.NetGuestCSUM |
	virtio.NetGuestTSO4 | virtio.NetGuestTSO6 | virtio.NetGuestECN | virtio.NetGuestUFO |
	virtio.NetHostTSO4 | virtio.NetHostTSO6 | virtio.NetHostECN | virtio.NetHostUFO |
	virtio.NetGuestUSO4 | virtio.NetGuestUSO6 | virtio.NetHostUSO |
	virtio.NetMrgRxbuf | virtio.AnyLayout | virtio.IndirectDesc | virtio.EventIdx |
	virtio.Version1 | virtio.RingPacked | virtio.InOrder | virtio.OrderPlatform

// ownFeatures are those that the front end has itself when the back end has them
// not.
const ownFeatures = virtio.NetMAC | virtio.NetMTU | virtio.NetStatus

// FrontendConfig says what a front end asks of its back end.
type FrontendConfig struct {
	Name      string           // such as "net_virtio_user0", which it is if empty
	Queues    int              // queue pairs; 0: 1
	QueueSize int              // descriptors of each queue, a power of two; 0: 256
	MAC       net.HardwareAddr // nil: the driver has to make one up
	Mask      virtio.Features  // features to hide from the driver
	MTU       int              // the MTU in bytes to tell both sides, 68 to 65535; 0: the back end's
	Timeout   time.Duration    // for each answer of the back end; 0: 5 s
	Log       *slog.Logger     // nil: silence

	// ControlQueue gives the driver a control queue, which the front end
	// answers itself.
	ControlQueue bool

	// Server has the front end listen and the back end connect, for which Dial
	// waits up to ConnectTimeout; 0: 60 s.
	Server         bool
	ConnectTimeout time.Duration
}

func (c *FrontendConfig) setDefaults() {
	if c.Name == "" {
		c.Name = "net_virtio_user0"
	}
	if c.Queues == 0 {
		c.Queues = 1
	}
	if c.QueueSize == 0 {
		c.QueueSize = defaultQueueSize
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func (c *FrontendConfig) check() error {
	switch {
	case c.Queues < 1 || c.Queues > maxPairs:
		return fmt.Errorf("vhost: %s: %d queue pairs: must be 1 to %d", c.Name, c.Queues, maxPairs)
	case c.QueueSize < 1 || c.QueueSize > maxQueueSize || c.QueueSize&(c.QueueSize-1) != 0:
		return fmt.Errorf("vhost: %s: queue_size=%d: must be a power of two, 1 to %d", c.Name, c.QueueSize, maxQueueSize)
	case c.MAC != nil && len(c.MAC) != 6:
		return fmt.Errorf("vhost: %s: a MAC address of %d bytes: must have 6", c.Name, len(c.MAC))
	case c.MTU != 0 && (c.MTU < virtio.MinMTU || c.MTU > 65535):
		return fmt.Errorf("vhost: %s: mtu=%d: must be %d to 65535", c.Name, c.MTU, virtio.MinMTU)
	}
	return nil
}

// Frontend is the driver's half of a vhost-user device: a driver.Transport that
// can interrupt. What a vhost-user back end lacks, the front end has for it: a
// configuration space with the MAC address and the link status, and, when the
// back end does not keep one, the device status.
//
// When the back end goes away, the link is down until it is back: the front end
// connects anew, with pauses of 0.1 to 2 s, and has the new back end go on where
// the old one was. Split virtqueues show where that is. Packed ones do not; for
// them the back end must keep notes that outlive it (INFLIGHT_SHMFD). Where it
// does not, Status shows DEVICE_NEEDS_RESET once it is back, and the link stays
// down until the driver resets the device and starts it anew. A back end that
// offers less than the driver has accepted is refused, and waited for.
//
// Its methods may be called from any goroutine. While there is no back end,
// those that need it return errors that wrap ErrDisconnected, and ReadConfig
// shows the link down; Reset forgets what there was to go on with.
type Frontend struct {
	cfg       FrontendConfig
	connector connector // nil: there is the one connection
	ctx       context.Context
	cancel    context.CancelCauseFunc
	keeper    sync.WaitGroup
	news      chan struct{} // the back end's configuration has changed
	pause     time.Duration // before the first try to reconnect

	mu      sync.Mutex
	peer    *peer // the last one that there was
	closed  bool
	changed func()

	mem        []mbuf.Region // mapped
	stopGrowth func()        // nil: no memory was mapped
	rings      []frontendRing
	inflight   *inflightFile // of the rings since the last reset; nil: none
	space      [configSize]byte

	status     virtio.Status   // as the driver wrote it, or needs a reset
	accepted   virtio.Features // that the back end took, its own among them; 0 before
	driver     virtio.Features // what the driver took of the offer
	featuresOK bool            // it took them
}

// Dial connects to the back end that listens on the unix socket at path, or
// waits for it there, and negotiates what both halves can do. A path that
// starts with "@" is an abstract socket.
func Dial(path string, cfg FrontendConfig) (*Frontend, error) {
	return DialContext(context.Background(), path, cfg)
}

// DialContext is Dial that gives up connecting when ctx is done.
func DialContext(ctx context.Context, path string, cfg FrontendConfig) (*Frontend, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	var c connector = &client{path: path, timeout: cfg.Timeout}
	if cfg.Server {
		s, err := newServer(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cfg.Name, err)
		}
		c = s
	}
	return dial(ctx, c, cfg)
}

// dial makes the first connection. The connector belongs to the front end, also
// when it fails. cfg was checked.
func dial(ctx context.Context, c connector, cfg FrontendConfig) (*Frontend, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.ConnectTimeout,
		fmt.Errorf("waited for %v", cfg.ConnectTimeout))
	defer cancel()
	if s, ok := c.(*server); ok {
		cfg.Log.Info("vhost: waiting for the back end to connect", "device", cfg.Name, "socket", s.path)
	}
	sock, err := c.connect(ctx)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("vhost: %s: %w", cfg.Name, err)
	}
	return newFrontend(sock, c, cfg)
}

// newFrontend starts a front end on a connected socket. Socket and connector
// belong to it, also when it fails; without a connector there are no other
// connections. cfg was checked.
func newFrontend(sock *net.UnixConn, c connector, cfg FrontendConfig) (*Frontend, error) {
	f := &Frontend{cfg: cfg, connector: c, news: make(chan struct{}, 1), pause: firstPause, rings: make([]frontendRing, 2*cfg.Queues)}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	p, err := f.handshake(f.ctx, sock)
	if err == nil {
		f.peer = p
		err = f.makeKicks()
	}
	if err != nil {
		f.release()
		return nil, f.wrap("set up", err)
	}
	f.keeper.Go(func() { f.keep(p) })
	return f, nil
}

// wrap says on which device, and while doing what, err happened.
func (f *Frontend) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("vhost: %s: %s: %w", f.cfg.Name, doing, err)
}

// connected is nil, or why the back end cannot be asked now.
func (f *Frontend) connected() error {
	if f.peer.channel.isLost() {
		return f.peer.channel.err()
	}
	return nil
}

// Name is the device's name.
func (f *Frontend) Name() string { return f.cfg.Name }

// Driver is the name that DPDK has for such a port.
func (f *Frontend) Driver() string { return "net_virtio_user" }

// Addressing says that device addresses are this process's own.
func (f *Frontend) Addressing() port.Addressing { return port.Addressing{Mode: mbuf.IOVAVirtual} }

// Watch registers the function that is told of changes: the back end has gone
// away, at once if it has already; it is back; it says that its configuration
// is another. What is so, ReadConfig and Status show. It runs on a goroutine of
// the front end's own and must not call Close.
func (f *Frontend) Watch(changed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = changed
	if changed != nil && !f.closed && f.connected() != nil {
		go changed()
	}
}

// Close stops the rings, ends the connection and closes every descriptor. The
// back end uses the memory no more when it returns. A second call does
// nothing.
func (f *Frontend) Close() error {
	f.cancel(errClosed) // breaks a reconnection off, which may hold the lock
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	err := f.reset()
	f.mu.Unlock()
	f.keeper.Wait()
	f.release()
	if errors.Is(err, ErrDisconnected) {
		err = nil // it had nothing left to stop
	}
	return f.wrap("close", err)
}

// errClosed is the cause when Close breaks something off.
var errClosed = errors.New("the front end was closed")

// release gives back what the front end holds.
func (f *Frontend) release() {
	f.cancel(errClosed)
	if f.peer != nil {
		f.peer.close()
	}
	if f.connector != nil {
		f.connector.close()
	}
	for i := range f.rings {
		f.rings[i].close()
	}
	if f.stopGrowth != nil {
		f.stopGrowth()
	}
	f.inflight.close()
}
