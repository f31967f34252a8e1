package vhost

import (
	"errors"
	"fmt"
	"time"

	"vionet/virtio"
)

// Features gives what the driver may accept: what the back end offers and the
// front end can carry, less the mask, plus what the front end has itself.
func (f *Frontend) Features() (virtio.Features, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.connected(); err != nil {
		return 0, f.wrap("read features", err)
	}
	return f.features(), nil
}

func (f *Frontend) features() virtio.Features {
	offer := f.peer.offered&frontendFeatures | virtio.NetStatus
	if f.cfg.MAC != nil {
		offer |= virtio.NetMAC
	}
	if f.cfg.MTU != 0 {
		offer |= virtio.NetMTU
	}
	if f.peer.protocol.has(protocolConfig) {
		offer |= f.peer.offered & (virtio.NetMAC | virtio.NetMTU)
	}
	if f.cfg.ControlQueue {
		offer |= controlFeatures
		if f.cfg.Queues > 1 {
			offer |= f.peer.offered & virtio.NetMQ
		}
	}
	return offer &^ f.cfg.Mask
}

// SetFeatures tells the back end what the driver accepted. When the back end
// refuses it, FEATURES_OK will not stay set.
func (f *Frontend) SetFeatures(accepted virtio.Features) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrap("accept features", f.setFeatures(accepted))
}

func (f *Frontend) setFeatures(accepted virtio.Features) error {
	if err := f.connected(); err != nil {
		return err
	}
	if extra := accepted &^ f.features(); extra != 0 {
		return fmt.Errorf("the device does not offer %v", extra)
	}
	if err := f.makeCalls(); err != nil {
		return err
	}
	f.driver = accepted
	f.accepted = accepted | f.peer.offered&virtio.VhostUserProtocolFeatures
	if f.cfg.Queues > 1 {
		// Without it some back ends drop every pair but the first. The control
		// queue that it belongs to is EnablePairs.
		f.accepted |= f.peer.offered & virtio.NetMQ
	}
	err := f.sendFeatures()
	f.featuresOK = err == nil
	if err != nil {
		f.accepted = 0
	}
	if errors.Is(err, errRefused) {
		f.cfg.Log.Warn("vhost: the back end refuses the features", "device", f.cfg.Name, "features", accepted)
		return nil
	}
	return err
}

// sendFeatures tells the back end which features are in use: what it does not
// offer of them, the front end has itself.
func (f *Frontend) sendFeatures() error {
	// Some back ends make a ring when they first hear of its call descriptor.
	for i := range f.rings {
		m := message{request: setVringCall, u64: uint64(i)}
		if err := f.peer.channel.tell(m, f.rings[i].call.Load().FD()); err != nil {
			return err
		}
	}
	if err := f.peer.channel.tell(message{request: setFeatures, u64: uint64(f.accepted & f.peer.offered &^ controlFeatures)}); err != nil {
		return err
	}
	if f.cfg.MTU != 0 && (f.accepted & f.peer.offered).Has(virtio.NetMTU) && f.peer.protocol.has(protocolNetMTU) {
		return f.peer.channel.tell(message{request: netSetMTU, u64: uint64(f.cfg.MTU)})
	}
	return nil
}

// Status reads the device status: from the back end where it keeps one.
// DEVICE_NEEDS_RESET shows that the back end is another one, which cannot go on
// with the packed virtqueues that there are.
func (f *Frontend) Status() (virtio.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.connected(); err != nil || !f.peer.statusSent {
		return f.status, f.wrap("read the status", err)
	}
	m, err := f.peer.channel.ask(message{request: getStatus})
	return virtio.Status(m.u64) | f.status&virtio.StatusNeedsReset, f.wrap("read the status", err)
}

// SetStatus writes the device status. FEATURES_OK does not stay set when the
// back end has refused the features; DRIVER_OK enables the first queue pair.
// Writing 0 is a reset.
func (f *Frontend) SetStatus(s virtio.Status) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s == 0 {
		return f.wrap("reset", f.reset())
	}
	return f.wrap("set status "+s.String(), f.setStatus(s))
}

func (f *Frontend) setStatus(s virtio.Status) error {
	if err := f.connected(); err != nil {
		return err
	}
	s &^= virtio.StatusNeedsReset // which is not the driver's to say
	if !f.featuresOK {
		s &^= virtio.StatusFeaturesOK
	}
	if s.Has(virtio.StatusDriverOK) && !f.status.Has(virtio.StatusDriverOK) {
		for i := range 2 {
			if err := f.enable(i, true); err != nil {
				return err
			}
		}
	}
	if err := f.sendStatus(s); err != nil {
		return err
	}
	f.status = s | f.status&virtio.StatusNeedsReset
	return nil
}

// sendStatus tells the back end the status, if it keeps one: which it does only
// once features are settled.
func (f *Frontend) sendStatus(s virtio.Status) error {
	settled := s&(virtio.StatusFeaturesOK|virtio.StatusDriverOK) != 0
	if !f.peer.protocol.has(protocolStatus) || !settled && !f.peer.statusSent {
		return nil
	}
	f.peer.statusSent = true
	return f.peer.channel.tell(message{request: setStatus, u64: uint64(s)})
}

// Reset stops every ring, waits until the back end has let go of it, and
// forgets the features. A back end that has not done so within the time-out is
// given up. While there is none, there is nothing to wait for.
func (f *Frontend) Reset(timeout time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peer.channel.deadline = time.Now().Add(timeout)
	defer func() { f.peer.channel.deadline = time.Time{} }()
	return f.wrap("reset", f.reset())
}

func (f *Frontend) reset() error {
	var err error
	if f.connected() == nil {
		err = f.resetPeer()
	}
	if f.peer.channel.peerEnded() {
		err = nil // it is quiet
	}
	f.forgetRings()
	f.status, f.driver, f.accepted, f.featuresOK = 0, 0, 0, false
	return err
}

func (f *Frontend) resetPeer() error {
	if err := f.stopRings(); err != nil {
		return err
	}
	if f.peer.statusSent {
		if err := f.peer.channel.tell(message{request: setStatus}); err != nil {
			return err
		}
	}
	f.peer.statusSent, f.peer.tableSent, f.peer.inflightSent = false, false, false
	return nil
}
