package fakedev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Config says what the device is like.
type Config struct {
	Name      string          // "fake0" if empty
	Offered   virtio.Features // DefaultFeatures if 0
	MAC       net.HardwareAddr
	MTU       uint16 // 0: 1500
	QueueSize int    // descriptors of each virtqueue; 0: 256, negative: it has none
	Pairs     int    // queue pairs; 0: 1
	// Refuse makes the device refuse FEATURES_OK.
	Refuse bool
	// NoInterrupts makes QueueEvent fail.
	NoInterrupts bool
	// ControlSize is the number of descriptors of the control queue; 0: 64.
	ControlSize int
	// RSSKeyMax, RSSTableMax and HashTypes are the limits of receive-side
	// scaling (virtio 1.2, section 5.1.4); 0: 40 bytes, 128 entries, all types.
	RSSKeyMax   int
	RSSTableMax int
	HashTypes   virtio.HashTypes
}

// DefaultFeatures is what a device offers unless told otherwise: every
// feature that the driver has a use for.
const DefaultFeatures = virtio.Version1 | virtio.NetMAC | virtio.NetStatus | virtio.NetMTU | virtio.NetMrgRxbuf |
	virtio.NetCSUM | virtio.NetHostTSO4 | virtio.NetHostTSO6 |
	virtio.NetGuestCSUM | virtio.NetGuestTSO4 | virtio.NetGuestTSO6

// Device is the fake device. Its methods may be called from any goroutine;
// those of one Queue from one at a time.
type Device struct {
	cfg Config

	mu       sync.Mutex
	status   virtio.Status
	accepted virtio.Features
	config   [24]byte
	queues   map[int]*Queue
	changed  func()
	resets   int
	enabled  int
	failing  int // virtqueue whose SetupQueue fails, plus 1
	stuck    bool
	closed   bool

	memory     mapped
	earlyKicks atomic.Int64
	removed    bool
	sawFailed  bool
	control    control
}

// New makes a device.
func New(cfg Config) *Device {
	if cfg.Name == "" {
		cfg.Name = "fake0"
	}
	if cfg.Offered == 0 {
		cfg.Offered = DefaultFeatures
	}
	if cfg.MAC == nil {
		cfg.MAC = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
	}
	if cfg.MTU == 0 {
		cfg.MTU = 1500
	}
	if cfg.QueueSize == 0 {
		cfg.QueueSize = 256
	}
	cfg.Pairs = max(cfg.Pairs, 1)
	cfg.setControlDefaults()
	d := &Device{cfg: cfg, queues: map[int]*Queue{}}
	copy(d.config[virtio.ConfigMAC:], cfg.MAC)
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigStatus:], virtio.NetStatusLinkUp)
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigMaxPairs:], uint16(cfg.Pairs))
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigMTU:], cfg.MTU)
	d.config[virtio.ConfigRSSKeyMax] = uint8(cfg.RSSKeyMax)
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigRSSTableMax:], uint16(cfg.RSSTableMax))
	binary.LittleEndian.PutUint32(d.config[virtio.ConfigHashTypes:], uint32(cfg.HashTypes))
	return d
}

// Name implements driver.Transport.
func (d *Device) Name() string { return d.cfg.Name }

// Driver implements driver.Transport.
func (d *Device) Driver() string { return "net_virtio" }

// Addressing implements driver.Transport.
func (d *Device) Addressing() port.Addressing { return port.Addressing{Mode: mbuf.IOVAVirtual} }

// Reset implements driver.Transport.
func (d *Device) Reset(time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stuck {
		return errors.New("the device does not become quiet")
	}
	if d.removed {
		return port.ErrGone
	}
	d.status, d.accepted, d.enabled = 0, 0, 0
	if d.cfg.controlled() {
		d.enabled = 1 // until a command says more
	}
	d.closeQueues()
	d.resets++
	return nil
}

// Status implements driver.Transport.
func (d *Device) Status() (virtio.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return 0, port.ErrGone
	}
	return d.status, nil
}

// SetStatus implements driver.Transport. A device that refuses the features
// does not let FEATURES_OK stay set.
func (d *Device) SetStatus(s virtio.Status) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sawFailed = d.sawFailed || s.Has(virtio.StatusFailed)
	if d.cfg.Refuse || d.accepted&^d.cfg.Offered != 0 {
		s &^= virtio.StatusFeaturesOK
	}
	d.status = s
	return nil
}

// Features implements driver.Transport.
func (d *Device) Features() (virtio.Features, error) { return d.cfg.Offered, nil }

// SetFeatures implements driver.Transport.
func (d *Device) SetFeatures(accepted virtio.Features) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.status.Has(virtio.StatusFeaturesOK) {
		return errors.New("features written after FEATURES_OK")
	}
	d.accepted = accepted
	return nil
}

// ReadConfig implements driver.Transport.
func (d *Device) ReadConfig(offset int, b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if offset < 0 || offset+len(b) > len(d.config) {
		return fmt.Errorf("%d bytes at %d: the configuration space has %d", len(b), offset, len(d.config))
	}
	copy(b, d.config[offset:])
	return nil
}

// MaxPairs implements driver.Transport.
func (d *Device) MaxPairs() int {
	if d.cfg.controlled() {
		return 1
	}
	return d.cfg.Pairs
}

// QueueSize implements driver.Transport.
func (d *Device) QueueSize(index int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index == d.controlIndex() {
		return d.cfg.ControlSize, nil
	}
	if index >= 2*d.cfg.Pairs {
		return 0, nil
	}
	return max(d.cfg.QueueSize, 0), nil
}

// SetupQueue implements driver.Transport.
func (d *Device) SetupQueue(q port.QueueSetup) (port.Kicker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing == q.Index+1 {
		return nil, errors.New("the device does not take the queue")
	}
	queue, err := newQueue(d, q, d.accepted)
	if err != nil {
		return nil, err
	}
	d.queues[q.Index] = queue
	if q.Index == d.controlIndex() {
		return controlKicker{queue}, nil
	}
	return queue, nil
}

// ResetQueue implements driver.QueueResetter.
func (d *Device) ResetQueue(index int, _ time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[index]
	if q == nil {
		return fmt.Errorf("virtqueue %d is not set up", index)
	}
	q.close()
	delete(d.queues, index)
	return nil
}

// QueueEvent implements driver.Transport.
func (d *Device) QueueEvent(index int) (port.Waiter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queues[index]
	if q == nil || q.event == nil || d.cfg.NoInterrupts {
		return nil, fmt.Errorf("interrupts of virtqueue %d: %w", index, port.ErrNotSupported)
	}
	return q.event, nil
}

// closeQueues forgets the queues.
func (d *Device) closeQueues() {
	for _, q := range d.queues {
		q.close()
	}
	clear(d.queues)
}

// EnablePairs implements driver.Transport.
func (d *Device) EnablePairs(n int) error {
	if d.cfg.controlled() {
		return fmt.Errorf("enable %d queue pairs: %w: it takes the control queue", n, port.ErrNotSupported)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enabled = n
	return nil
}

// Watch implements driver.Transport.
func (d *Device) Watch(changed func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = changed
}

// Close implements driver.Transport.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.memory.close()
	d.status = 0
	d.closeQueues()
	return nil
}

// FailSetup makes SetupQueue fail for one virtqueue; -1 ends that.
func (d *Device) FailSetup(index int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = index + 1
}

// StickReset makes Reset fail, as when it takes too long, until it is called
// with false: the queues go on.
func (d *Device) StickReset(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = on
}

// SetConfig writes to the device's configuration space and tells the driver.
func (d *Device) SetConfig(offset int, b []byte) {
	d.mu.Lock()
	copy(d.config[offset:], b)
	changed := d.changed
	d.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// NeedReset puts the device into the state in which it needs a reset, and
// tells the driver.
func (d *Device) NeedReset() {
	d.mu.Lock()
	d.status |= virtio.StatusNeedsReset
	d.mu.Unlock()
	d.SetConfig(0, nil)
}

// Remove takes the device away: its status can't be read any more, and the
// driver is told.
func (d *Device) Remove() {
	d.mu.Lock()
	d.removed = true
	d.mu.Unlock()
	d.SetConfig(0, nil)
}

// SawFailed reports whether the driver ever set FAILED.
func (d *Device) SawFailed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sawFailed
}

// SetLink moves the link and tells the driver.
func (d *Device) SetLink(up bool) { d.setStatusBit(virtio.NetStatusLinkUp, up) }

// Accepted are the features that the driver wrote since the last reset.
func (d *Device) Accepted() virtio.Features {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.accepted
}

// EarlyKicks counts the notifications that came before DRIVER_OK, which virtio
// 1.2, section 3.1.1 forbids.
func (d *Device) EarlyKicks() int { return int(d.earlyKicks.Load()) }

// Resets counts the resets.
func (d *Device) Resets() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resets
}

// Pairs is the number of queue pairs that the driver enabled.
func (d *Device) Pairs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.enabled
}

// Closed reports whether the driver gave the device back.
func (d *Device) Closed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// Queue is virtqueue index, or nil when the driver has not set it up.
func (d *Device) Queue(index int) *Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queues[index]
}
