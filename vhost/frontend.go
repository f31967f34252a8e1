package vhost

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
)

// frontendFeatures are the device features that make sense without a control
// queue and without a configuration space of the device's own; a back end's
// other bits are kept from the driver.
const frontendFeatures = virtio.NetCSUM | virtio.NetGuestCSUM |
	virtio.NetGuestTSO4 | virtio.NetGuestTSO6 | virtio.NetGuestECN | virtio.NetGuestUFO |
	virtio.NetHostTSO4 | virtio.NetHostTSO6 | virtio.NetHostECN | virtio.NetHostUFO |
	virtio.NetMrgRxbuf | virtio.AnyLayout | virtio.IndirectDesc | virtio.EventIdx |
	virtio.Version1 | virtio.RingPacked | virtio.InOrder | virtio.OrderPlatform

// emulatedFeatures are those that the front end has itself. The back end never
// hears of them.
const emulatedFeatures = virtio.NetMAC | virtio.NetStatus

// FrontendConfig says what a front end asks of its back end.
type FrontendConfig struct {
	Name      string           // such as "net_virtio_user0", which it is if empty
	Queues    int              // queue pairs; 0: 1
	QueueSize int              // descriptors of each queue, a power of two; 0: 256
	MAC       net.HardwareAddr // nil: the driver has to make one up
	Mask      virtio.Features  // features to hide from the driver
	Timeout   time.Duration    // for each answer of the back end; 0: 5 s
	Log       *slog.Logger     // nil: silence
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
	}
	return nil
}

// Frontend is the driver's half of a vhost-user device: a driver.Transport.
// What a vhost-user back end lacks, the front end has for it: a configuration
// space with the MAC address and the link status, and, when the back end does
// not keep one, the device status.
//
// Its methods may be called from any goroutine. Once the connection has ended,
// those that need the back end return errors that wrap ErrDisconnected, and
// ReadConfig shows the link down.
type Frontend struct {
	cfg FrontendConfig

	mu        sync.Mutex
	channel   *channel
	offered   virtio.Features  // by the back end
	protocol  protocolFeatures // negotiated
	queuePair int              // that the back end has
	live      bool             // Dial has succeeded and Close was not called
	down      bool             // the connection has ended
	closed    bool
	changed   func()

	mem     []mbuf.Region // mapped
	sentMem bool          // since the last reset
	rings   []frontendRing

	status     virtio.Status // as the driver wrote it
	statusSent bool          // the back end knows of a status since the last reset
	featuresOK bool          // the back end took the features
}

// Dial connects to the back end that listens on the unix socket at path and
// negotiates what both halves can do. A path that starts with "@" is an
// abstract socket.
func Dial(path string, cfg FrontendConfig) (*Frontend, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	sock, err := net.DialTimeout("unix", path, cfg.Timeout)
	if err != nil {
		return nil, fmt.Errorf("vhost: %s: %w", cfg.Name, explainDial(path, err))
	}
	return newFrontend(sock.(*net.UnixConn), cfg)
}

// explainDial turns an error of connecting into one that says what to do.
func explainDial(path string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("no vhost-user socket %s: start the back end first, or correct path=: %w", path, unix.ENOENT)
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("nobody listens on the socket %s: start the back end first, or correct path=: %w", path, unix.ECONNREFUSED)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("no permission to connect to %s: run as the back end's user, or as root: %w", path, unix.EACCES)
	default:
		return fmt.Errorf("connect to the vhost-user socket %s: %w", path, err)
	}
}

// newFrontend starts a front end on a connected socket, which belongs to it,
// also when it fails. cfg was checked.
func newFrontend(sock *net.UnixConn, cfg FrontendConfig) (*Frontend, error) {
	f := &Frontend{cfg: cfg, queuePair: 1, rings: make([]frontendRing, 2*cfg.Queues)}
	f.channel = newChannel(&conn{sock: sock, timeout: cfg.Timeout}, f.lost)
	err := f.negotiateProtocol()
	if err == nil {
		err = f.makeEventfds()
	}
	if err != nil {
		f.Close()
		return nil, f.wrap("set up", err)
	}
	f.mu.Lock()
	f.live = true
	f.mu.Unlock()
	return f, nil
}

// negotiateProtocol is the first exchange on a connection.
func (f *Frontend) negotiateProtocol() error {
	if err := f.channel.tell(message{request: setOwner}); err != nil {
		return err
	}
	m, err := f.channel.ask(message{request: getFeatures})
	if err != nil {
		return err
	}
	f.offered = virtio.Features(m.u64)
	if f.offered.Has(virtio.VhostUserProtocolFeatures) {
		if m, err = f.channel.ask(message{request: getProtocolFeatures}); err != nil {
			return err
		}
		f.protocol = protocolFeatures(m.u64) & knownProtocol
		if err := f.channel.tell(message{request: setProtocolFeatures, u64: uint64(f.protocol)}); err != nil {
			return err
		}
		f.channel.ack = f.protocol.has(protocolReplyAck)
	}
	if f.protocol.has(protocolMQ) {
		if m, err = f.channel.ask(message{request: getQueueNum}); err != nil {
			return err
		}
		f.queuePair = int(min(m.u64, maxPairs))
	}
	if f.cfg.Queues > f.queuePair {
		return fmt.Errorf("the back end has %d queue pairs, not %d: lower queues=", f.queuePair, f.cfg.Queues)
	}
	f.cfg.Log.Debug("vhost: connected", "device", f.cfg.Name, "features", f.offered, "pairs", f.queuePair)
	return nil
}

// wrap says on which device, and while doing what, err happened.
func (f *Frontend) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("vhost: %s: %s: %w", f.cfg.Name, doing, err)
}

// lost runs when the connection has ended, on the goroutine that read from it.
func (f *Frontend) lost(cause error) {
	f.mu.Lock()
	f.down = true
	live, changed := f.live, f.changed
	f.mu.Unlock()
	if !live {
		return
	}
	if cause == nil {
		cause = io.EOF
	}
	f.cfg.Log.Error("vhost: the back end is gone, the link is down", "device", f.cfg.Name, "cause", cause)
	if changed != nil {
		changed()
	}
}

// connected is nil, or why the back end cannot be asked any more.
func (f *Frontend) connected() error {
	if f.channel.isLost() {
		return f.channel.err()
	}
	return nil
}

// Name is the device's name.
func (f *Frontend) Name() string { return f.cfg.Name }

// Driver is the name that DPDK has for such a port.
func (f *Frontend) Driver() string { return "net_virtio_user" }

// Addressing says that device addresses are this process's own.
func (f *Frontend) Addressing() port.Addressing { return port.Addressing{Mode: mbuf.IOVAVirtual} }

// Watch registers the function that is told when the back end has gone away,
// at once if it has already. It runs on a goroutine of the front end's own and
// must not call Close.
func (f *Frontend) Watch(changed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = changed
	if f.down && f.live && changed != nil {
		go changed()
	}
}

// Close stops the rings, ends the connection and closes every descriptor. The
// back end uses the memory no more when it returns. A second call does
// nothing.
func (f *Frontend) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed, f.live = true, false
	var err error
	if f.connected() == nil {
		err = f.reset()
	}
	f.mu.Unlock()
	f.channel.close()
	for i := range f.rings {
		f.rings[i].close()
	}
	if errors.Is(err, ErrDisconnected) {
		err = nil // it had nothing left to stop
	}
	return f.wrap("close", err)
}
