package fakedev

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
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
	// FailSetup makes SetupQueue fail for that virtqueue; 0 with FailSetupOn
	// false: none does.
	FailSetup   int
	FailSetupOn bool
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
	regions  []mbuf.Region
	queues   map[int]*Queue
	changed  func()
	resets   int
	enabled  int
	closed   bool
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
	d := &Device{cfg: cfg, queues: map[int]*Queue{}}
	copy(d.config[virtio.ConfigMAC:], cfg.MAC)
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigStatus:], virtio.NetStatusLinkUp)
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigMaxPairs:], uint16(cfg.Pairs))
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigMTU:], cfg.MTU)
	return d
}

// Name implements driver.Transport.
func (d *Device) Name() string { return d.cfg.Name }

// Driver implements driver.Transport.
func (d *Device) Driver() string { return "net_virtio" }

// Addressing implements driver.Transport.
func (d *Device) Addressing() port.Addressing { return port.Addressing{Mode: mbuf.IOVAVirtual} }

// Map implements driver.Transport.
func (d *Device) Map(mem *mbuf.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.regions = mem.Regions()
	return nil
}

// Reset implements driver.Transport.
func (d *Device) Reset(time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status, d.accepted, d.enabled = 0, 0, 0
	d.closeQueues()
	d.resets++
	return nil
}

// Status implements driver.Transport.
func (d *Device) Status() (virtio.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status, nil
}

// SetStatus implements driver.Transport. A device that refuses the features
// does not let FEATURES_OK stay set.
func (d *Device) SetStatus(s virtio.Status) error {
	d.mu.Lock()
	defer d.mu.Unlock()
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
func (d *Device) MaxPairs() int { return d.cfg.Pairs }

// QueueSize implements driver.Transport.
func (d *Device) QueueSize(index int) (int, error) {
	if index >= 2*d.cfg.Pairs {
		return 0, nil
	}
	return max(d.cfg.QueueSize, 0), nil
}

// SetupQueue implements driver.Transport.
func (d *Device) SetupQueue(q port.QueueSetup) (port.Kicker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cfg.FailSetupOn && d.cfg.FailSetup == q.Index {
		return nil, errors.New("the device does not take the queue")
	}
	queue, err := newQueue(d, q, d.accepted)
	if err != nil {
		return nil, err
	}
	d.queues[q.Index] = queue
	return queue, nil
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
	d.status = 0
	d.closeQueues()
	return nil
}

// SetLink moves the link and tells the driver.
func (d *Device) SetLink(up bool) {
	d.mu.Lock()
	status := uint16(0)
	if up {
		status = virtio.NetStatusLinkUp
	}
	binary.LittleEndian.PutUint16(d.config[virtio.ConfigStatus:], status)
	changed := d.changed
	d.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// Accepted are the features that the driver wrote since the last reset.
func (d *Device) Accepted() virtio.Features {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.accepted
}

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

// bytes gives the memory at a device address, or nil when the driver
// never mapped it. The regions do not change once there are queues.
func (d *Device) bytes(addr uint64, n uint32) []byte {
	for _, r := range d.regions {
		if off := addr - r.IOVA; addr >= r.IOVA && off < uint64(len(r.Bytes)) && uint64(n) <= uint64(len(r.Bytes))-off {
			return r.Bytes[off : off+uint64(n)]
		}
	}
	return nil
}
