package driver

import (
	"errors"
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

// Start negotiates what the configuration asks for, sets the queues up, fills
// the receive rings and lets the device go (virtio 1.2, section 3.1.1). The
// device is reset first, so that nothing of an earlier start is left. When a
// step fails, the device is reset again and the port stays stopped. Buffers that
// Stop had to hold back are free when the first reset succeeds.
func (d *Device) Start() error {
	d.control.change.Lock()
	defer d.control.change.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mustBe(stopped, "start"); err != nil {
		return err
	}
	if d.mem == nil {
		return fmt.Errorf("%s: start: %w: configure the port first", d.Name(), port.ErrState)
	}
	if err := d.start(); err != nil {
		d.transport.SetStatus(virtio.StatusFailed)
		return fmt.Errorf("%s: start: %w", d.Name(), errors.Join(err, d.endQueues()))
	}
	d.state = started
	d.active = d.cfg
	d.attachXSKs()
	d.linkUp.Store(d.link().Up)
	d.log.Info(fmt.Sprintf("virtio: using %s Rx path on port %d", d.paths.Rx.Name, d.opts.ID))
	d.log.Info(fmt.Sprintf("virtio: using %s Tx path on port %d", d.paths.Tx.Name, d.opts.ID))
	return nil
}

func (d *Device) start() error {
	if err := d.acknowledge(); err != nil {
		return err
	}
	if err := d.negotiate(); err != nil {
		return err
	}
	if err := d.setupQueues(); err != nil {
		return err
	}
	if err := d.setupControlQueue(); err != nil {
		return err
	}
	const running = virtio.StatusAcknowledge | virtio.StatusDriver | virtio.StatusFeaturesOK | virtio.StatusDriverOK
	if err := d.transport.SetStatus(running); err != nil {
		return fmt.Errorf("set status %v: %w", running, err)
	}
	if err := d.enablePairs(); err != nil {
		return err
	}
	if err := d.restoreSettings(); err != nil {
		return err
	}
	for _, q := range d.rx {
		q.kicker.Kick(q.ring.Position())
	}
	return nil
}

// negotiate agrees on the features (virtio 1.2, section 3.1.1, steps 4 to 6).
// The offer is read anew: what was offered at Open may have shrunk.
func (d *Device) negotiate() error {
	t := d.transport
	offered, err := t.Features()
	if err != nil {
		return fmt.Errorf("read the offered features: %w", err)
	}
	accepted, err := selectFeatures(offered&d.offered, d.cfg)
	if err != nil {
		return err
	}
	if err := t.SetFeatures(accepted); err != nil {
		return fmt.Errorf("write the features %v: %w", accepted, err)
	}
	if accepted.Has(virtio.Version1) {
		want := virtio.StatusAcknowledge | virtio.StatusDriver | virtio.StatusFeaturesOK
		if err := t.SetStatus(want); err != nil {
			return fmt.Errorf("set status %v: %w", want, err)
		}
		status, err := t.Status()
		if err != nil {
			return fmt.Errorf("read status: %w", err)
		}
		if !status.Has(virtio.StatusFeaturesOK) {
			return fmt.Errorf("%w: asked for %v of the offered %v: configure fewer offloads", ErrFeaturesRefused, accepted, offered)
		}
	}
	d.accepted = accepted
	return nil
}

// Stop resets the device and frees every buffer that it held, packets that
// were not sent yet among them. The port is stopped also when the reset fails;
// then what the device has not used may still be read and written by it, and is
// held back until a Start or Close. The error has the number of buffers.
func (d *Device) Stop() error {
	d.control.interrupt()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == closed {
		return fmt.Errorf("%s: stop: %w", d.Name(), port.ErrClosed)
	}
	return d.stop()
}

func (d *Device) stop() error {
	if d.state != started {
		return nil
	}
	d.state = stopped
	defer d.holdXSKs()()
	if err := d.endQueues(); err != nil {
		return fmt.Errorf("%s: stop: %w", d.Name(), err)
	}
	return nil
}

// Close stops the port and gives the device back, which reaches no buffer any
// more: those that a Stop held back are free.
func (d *Device) Close() error {
	defer d.control.background.end()
	d.control.interrupt()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == closed {
		return nil
	}
	err := d.stop()
	if errors.Is(err, port.ErrGone) {
		err = nil // and with it all that there was to stop
	}
	d.state = closed
	err = errors.Join(err, d.transport.Close())
	d.releaseRetired()
	return err
}
