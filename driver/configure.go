package driver

import (
	"fmt"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// Configure records what the next Start asks for; see port.Port. It checks
// everything that can be known before the device is asked.
func (d *Device) Configure(cfg port.Config) error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mustBe(stopped, "configure"); err != nil {
		return err
	}
	cfg.RxQueues, cfg.TxQueues = max(cfg.RxQueues, 1), max(cfg.TxQueues, 1)
	if cfg.WhereAvailable {
		d.dropUnavailable(&cfg)
	}
	if err := d.check(cfg); err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	rss, err := d.resolveRSS(cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if d.mem == nil {
		mem := cfg.Pool.Memory()
		if err := d.transport.Map(mem); err != nil {
			return fmt.Errorf("%s: make the buffers visible to the device: %w", d.Name(), err)
		}
		d.mem = mem
	}
	d.cfg, d.control.settings.rss = cfg, rss
	return nil
}

// dropUnavailable leaves of cfg what the device has, and says what it took out.
func (d *Device) dropUnavailable(cfg *port.Config) {
	rx, tx := rxCapabilities(d.offered), txCapabilities(d.offered)
	if lost := cfg.RxOffloads &^ rx; lost != 0 {
		d.log.Warn(fmt.Sprintf("virtio: port %d does without the Rx offloads %v, which the device lacks", d.opts.ID, lost))
	}
	if lost := cfg.TxOffloads &^ tx; lost != 0 {
		d.log.Warn(fmt.Sprintf("virtio: port %d does without the Tx offloads %v, which the device lacks", d.opts.ID, lost))
	}
	if pairs := max(cfg.RxQueues, cfg.TxQueues); pairs > d.maxPairs {
		d.log.Warn(fmt.Sprintf("virtio: port %d has %d queues of %d that were asked for", d.opts.ID, d.maxPairs, pairs))
	}
	cfg.RxOffloads &= rx
	cfg.TxOffloads &= tx
	cfg.RxQueues, cfg.TxQueues = min(cfg.RxQueues, d.maxPairs), min(cfg.TxQueues, d.maxPairs)
}

func (d *Device) check(cfg port.Config) error {
	switch {
	case cfg.Pool == nil:
		return fmt.Errorf("%w: no pool for received packets", port.ErrInvalid)
	case d.mem != nil && cfg.Pool.Memory() != d.mem:
		return fmt.Errorf("%w: pool %s lies in other memory than the one the device was given: make it in the same", port.ErrInvalid, cfg.Pool.Name())
	case cfg.RxQueues > d.maxPairs || cfg.TxQueues > d.maxPairs:
		return fmt.Errorf("%w: %d Rx and %d Tx queues: the device has %d of each", port.ErrInvalid, cfg.RxQueues, cfg.TxQueues, d.maxPairs)
	case cfg.RxDesc < 0 || cfg.RxDesc > ring.MaxSize || cfg.TxDesc < 0 || cfg.TxDesc > ring.MaxSize:
		return fmt.Errorf("%w: %d Rx and %d Tx descriptors: must be at most %d", port.ErrInvalid, cfg.RxDesc, cfg.TxDesc, ring.MaxSize)
	case cfg.MTU != 0 && (cfg.MTU < virtio.MinMTU || cfg.MTU > d.maxMTU):
		return fmt.Errorf("%w: MTU %d: must be %d to %d", port.ErrInvalid, cfg.MTU, virtio.MinMTU, d.maxMTU)
	}
	if wish := cfg.RxOffloads & (port.RxTCPLRO | port.RxScatter); wish != 0 && d.opts.NoMergeable {
		return &ConflictError{Wish: fmt.Sprintf("Rx offload %v", wish), Against: "NoMergeable (mrg_rxbuf=0)"}
	}
	if extra := cfg.RxOffloads &^ rxCapabilities(d.offered); extra != 0 {
		return &FeatureError{Asked: fmt.Sprintf("Rx offload %v", extra), Missing: offloadFeatures(port.Config{RxOffloads: extra}) &^ d.offered}
	}
	if extra := cfg.TxOffloads &^ txCapabilities(d.offered); extra != 0 {
		return &FeatureError{Asked: fmt.Sprintf("Tx offload %v", extra), Missing: offloadFeatures(port.Config{TxOffloads: extra}) &^ d.offered}
	}
	return d.checkBuffers(cfg)
}

// checkBuffers makes sure that a frame of the MTU fits: in one buffer, or in
// several where the device can spread it.
func (d *Device) checkBuffers(cfg port.Config) error {
	mtu := cfg.MTU
	if mtu == 0 {
		mtu = min(defaultMTU, d.maxMTU)
	}
	room := cfg.Pool.BufSize() - mbuf.Headroom
	if room < minFrame || room < mtu+etherOverhead && !d.offered.Has(virtio.NetMrgRxbuf) {
		return fmt.Errorf("%w: buffers of %d bytes hold %d of a frame, an MTU of %d takes %d: raise --mbuf-size or lower the MTU, or use mergeable buffers",
			port.ErrInvalid, cfg.Pool.BufSize(), room, mtu, mtu+etherOverhead)
	}
	return nil
}

// mustBe reports an error unless the device is in the state that verb needs.
func (d *Device) mustBe(want state, verb string) error {
	switch {
	case d.state == want:
		return nil
	case d.state == closed:
		return fmt.Errorf("%s: %s: %w", d.Name(), verb, port.ErrClosed)
	case want == stopped:
		return fmt.Errorf("%s: %s: %w: stop the port first", d.Name(), verb, port.ErrState)
	default:
		return fmt.Errorf("%s: %s: %w: start the port first", d.Name(), verb, port.ErrState)
	}
}
