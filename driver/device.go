package driver

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// Options are the settings of a Device that do not change while it is open.
// The zero value is usable.
type Options struct {
	// ID is the port's number, for log lines and mbuf.Buf.Port.
	ID int
	// Devargs are the arguments that the device was named with, for Info.
	Devargs string
	// NoSimpleTx forbids the simple Tx path (devarg simple_tx_support=0).
	NoSimpleTx bool
	// NoMergeable refuses mergeable Rx buffers (devarg mrg_rxbuf=0).
	NoMergeable bool
	// NoPacked refuses packed virtqueues (devarg packed_vq=0); InOrder takes
	// IN_ORDER, EventIdx takes EVENT_IDX where the device has them.
	NoPacked, InOrder, EventIdx bool
	// KeepNumBuffers leaves num_buffers in the header of a packet that asks for
	// nothing as it is: a packet that is received and sent on keeps what it came
	// with. The field is unused on transmitted packets, but to be set to zero (virtio
	// 1.2, section 5.1.6.2.1), which is done without this option. It costs two cache
	// lines' ways between the processors: the device sets the field again in the next
	// packet that the buffer receives. DPDK's driver never sets it (devarg
	// clear_num_buffers=0).
	KeepNumBuffers bool
	// Speed is the link's speed in Mb/s, in place of what the device says; 0:
	// ask the device.
	Speed uint32
	// MAC is the address of a device that has none of its own; nil: random.
	MAC net.HardwareAddr
	// ResetTimeout bounds the wait for a reset; 0: 3 s.
	ResetTimeout time.Duration
	// ControlTimeout bounds the wait for the answer to a command on the control
	// queue; 0: 1 s.
	ControlTimeout time.Duration
	// Logger is told which paths a Start chose and when a queue breaks; nil:
	// nobody is.
	Logger *slog.Logger
}

func (o Options) check() error {
	switch {
	case o.MAC != nil && !isStation(o.MAC):
		return fmt.Errorf("address %v: %w: it is no unicast address of 6 bytes", o.MAC, port.ErrInvalid)
	case o.ResetTimeout < 0:
		return fmt.Errorf("reset timeout %v: %w: must not be negative", o.ResetTimeout, port.ErrInvalid)
	case o.ControlTimeout < 0:
		return fmt.Errorf("control timeout %v: %w: must not be negative", o.ControlTimeout, port.ErrInvalid)
	}
	return nil
}

const (
	defaultResetTimeout = 3 * time.Second
	defaultMTU          = 1500
	defaultQueueSize    = 256 // shown before a queue exists
	minDesc             = 32
	etherOverhead       = 14 + 4 // header and one VLAN tag
	maxRxPktLen         = 9728
)

// state is where a Device is in its life.
type state int

const (
	stopped state = iota
	started
	closed
)

// Device is a virtio network device, driven. It is a port.Port.
type Device struct {
	transport Transport
	opts      Options
	log       *slog.Logger

	// What the device said when it was opened: everything that it offers, and
	// what of that may be used.
	everything, offered virtio.Features

	mac      net.HardwareAddr
	maxPairs int
	maxMTU   int

	mu       sync.Mutex
	state    state
	mem      *mbuf.Memory // mapped, once a configuration named its pool
	cfg      port.Config
	active   port.Config // of the last successful Start
	accepted virtio.Features
	rx       []*RxQueue
	tx       []*TxQueue
	retired  []retired // queues of a device that did not become quiet
	xsks     []*XSK    // bound to queue pairs
	paths    port.Paths
	base     port.Stats // counters at the last ResetStats
	past     port.Stats // counters of queues that are gone

	linkUp  atomic.Bool // as the application was told last
	notify  atomic.Pointer[func(port.Event)]
	control control
}

var (
	_ port.Port    = (*Device)(nil)
	_ port.Faulter = (*Device)(nil)
)

// Open probes the device behind t: it resets it and reads what it offers. The
// Device owns t from then on, also when Open fails. Next come Configure and
// Start. An error wraps port.ErrInvalid when it is about the options.
func Open(t Transport, opts Options) (*Device, error) {
	if err := opts.check(); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", t.Name(), err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.ResetTimeout == 0 {
		opts.ResetTimeout = defaultResetTimeout
	}
	if opts.ControlTimeout == 0 {
		opts.ControlTimeout = defaultControlTimeout
	}
	d := &Device{transport: t, opts: opts, log: opts.Logger, maxMTU: maxRxPktLen - etherOverhead - virtio.NetHeaderSize}
	if err := d.probe(); err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", t.Name(), err)
	}
	t.Watch(d.configChanged)
	return d, nil
}

// probe reads what the device offers (virtio 1.2, section 3.1.1, steps 1 to 4).
func (d *Device) probe() error {
	t := d.transport
	if err := d.acknowledge(); err != nil {
		return err
	}
	offered, err := t.Features()
	if err != nil {
		return fmt.Errorf("read the offered features: %w", err)
	}
	d.everything = offered
	offered &^= unwantedFeatures(d.opts)
	if offered.Has(virtio.NetMTU) {
		mtu, err := readConfig16(t, virtio.ConfigMTU)
		if err != nil {
			return err
		}
		if mtu < virtio.MinMTU {
			offered &^= virtio.NetMTU
		} else {
			d.maxMTU = int(mtu)
		}
	}
	if d.mac, err = d.readMAC(offered); err != nil {
		return err
	}
	d.offered, err = d.probeControl(offered)
	return err
}

// acknowledge resets the device and tells it that there is a driver.
func (d *Device) acknowledge() error {
	t := d.transport
	if err := d.reset(); err != nil {
		return err
	}
	for _, s := range []virtio.Status{virtio.StatusAcknowledge, virtio.StatusAcknowledge | virtio.StatusDriver} {
		if err := t.SetStatus(s); err != nil {
			return fmt.Errorf("set status %v: %w", s, err)
		}
	}
	return nil
}

// readMAC reads the device's address, or makes one up.
func (d *Device) readMAC(offered virtio.Features) (net.HardwareAddr, error) {
	mac := make(net.HardwareAddr, 6)
	if offered.Has(virtio.NetMAC) {
		if err := d.transport.ReadConfig(virtio.ConfigMAC, mac); err != nil {
			return nil, fmt.Errorf("read the MAC address: %w", err)
		}
		return mac, nil
	}
	if d.opts.MAC != nil {
		return d.opts.MAC, nil
	}
	rand.Read(mac)
	mac[0] = mac[0]&^1 | 2 // unicast, locally administered
	return mac, nil
}

func readConfig16(t Transport, offset int) (uint16, error) {
	var b [2]byte
	if err := t.ReadConfig(offset, b[:]); err != nil {
		return 0, fmt.Errorf("read the device configuration at %d: %w", offset, err)
	}
	return binary.LittleEndian.Uint16(b[:]), nil
}

// Name is the device's name.
func (d *Device) Name() string { return d.transport.Name() }

// Addressing says which memory the device needs: what to make the
// mbuf.Memory with.
func (d *Device) Addressing() port.Addressing { return d.transport.Addressing() }

// Offered are the features that the device offers; Accepted are those of the
// last Start.
func (d *Device) Offered() virtio.Features { return d.offered }

// Accepted are the features that the last successful Start negotiated.
func (d *Device) Accepted() virtio.Features {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.accepted
}

// Info describes the port.
func (d *Device) Info() port.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	info := port.Info{
		Name:         d.transport.Name(),
		Driver:       d.transport.Driver(),
		Devargs:      d.opts.Devargs,
		TxDMA:        true,
		MAC:          d.mac,
		MTU:          d.mtu(),
		MinMTU:       virtio.MinMTU,
		MaxMTU:       d.maxMTU,
		RxQueues:     d.cfg.RxQueues,
		TxQueues:     d.cfg.TxQueues,
		MaxRxQueues:  d.maxPairs,
		MaxTxQueues:  d.maxPairs,
		RxDesc:       d.cfg.RxDesc,
		TxDesc:       d.cfg.TxDesc,
		MinDesc:      minDesc,
		MaxDesc:      32768,
		MinRxBufSize: 64,
		MaxRxPktLen:  maxRxPktLen,
		MaxMACs:      maxMACs,
		Promiscuous:  d.control.settings.promiscuous,
		RxCapa:       rxCapabilities(d.offered),
		TxCapa:       txCapabilities(d.offered),
		RxActive:     d.active.RxOffloads,
		TxActive:     d.active.TxOffloads,
		Offered:      d.everything.Names(),
		Negotiated:   d.accepted.Names(),
		Paths:        d.paths,
		IOVA:         d.transport.Addressing().Mode.String(),
	}
	if d.state == started {
		info.RxDesc, info.TxDesc = d.rx[0].limit, d.tx[0].limit
	}
	return info
}

func (d *Device) mtu() int {
	if d.cfg.MTU != 0 {
		return d.cfg.MTU
	}
	return min(defaultMTU, d.maxMTU)
}

// Link reads the state of the link (virtio 1.2, section 5.1.4).
func (d *Device) Link() port.Link {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.link()
}

func (d *Device) link() port.Link {
	if d.state != started {
		return port.Link{FullDuplex: true}
	}
	link := port.Link{Up: true, Speed: d.opts.Speed, FullDuplex: true}
	if d.accepted.Has(virtio.NetStatus) {
		status, err := readConfig16(d.transport, virtio.ConfigStatus)
		if err != nil || status&virtio.NetStatusLinkUp == 0 {
			return port.Link{FullDuplex: true}
		}
	}
	if link.Speed == 0 {
		link.Speed, link.FullDuplex = d.deviceSpeed()
	}
	return link
}

// deviceSpeed reads speed and duplex from a device that tells them.
func (d *Device) deviceSpeed() (speed uint32, fullDuplex bool) {
	var b [5]byte
	if !d.accepted.Has(virtio.NetSpeedDuplex) || d.transport.ReadConfig(virtio.ConfigSpeed, b[:]) != nil {
		return port.SpeedUnknown, true
	}
	const half = 0 // of the duplex field; 0xff is unknown
	return binary.LittleEndian.Uint32(b[:]), b[4] != half
}

// Paths says which burst functions the last Start chose, and why.
func (d *Device) Paths() port.Paths {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paths
}

// Notify registers the function that is told of the port's events.
func (d *Device) Notify(f func(port.Event)) {
	if f == nil {
		d.notify.Store(nil)
		return
	}
	d.notify.Store(&f)
}

func (d *Device) event(e port.Event) {
	if f := d.notify.Load(); f != nil {
		(*f)(e)
	}
}
