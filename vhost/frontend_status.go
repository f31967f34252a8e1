package vhost

import (
	"encoding/binary"
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
	offer := f.offered&frontendFeatures | virtio.NetStatus
	if f.cfg.MAC != nil {
		offer |= virtio.NetMAC
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
	if extra := accepted &^ f.features(); extra != 0 {
		return fmt.Errorf("the device does not offer %v", extra)
	}
	// Some back ends make a ring when they first hear of its call descriptor.
	for i := range f.rings {
		m := message{request: setVringCall, u64: uint64(i)}
		if err := f.channel.tell(m, int(f.rings[i].call.fd.Load())); err != nil {
			return err
		}
	}
	wire := accepted &^ emulatedFeatures
	wire |= f.offered & virtio.VhostUserProtocolFeatures
	if f.cfg.Queues > 1 {
		// Without it some back ends drop every pair but the first. The control
		// queue that it belongs to is EnablePairs.
		wire |= f.offered & virtio.NetMQ
	}
	err := f.channel.tell(message{request: setFeatures, u64: uint64(wire)})
	f.featuresOK = err == nil
	if errors.Is(err, errRefused) {
		f.cfg.Log.Warn("vhost: the back end refuses the features", "device", f.cfg.Name, "features", accepted)
		return nil
	}
	return err
}

// Status reads the device status: from the back end where it keeps one.
func (f *Frontend) Status() (virtio.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.connected(); err != nil || !f.statusSent {
		return f.status, f.wrap("read the status", err)
	}
	m, err := f.channel.ask(message{request: getStatus})
	return virtio.Status(m.u64), f.wrap("read the status", err)
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
	// The back end takes a status only once features are settled.
	settled := s&(virtio.StatusFeaturesOK|virtio.StatusDriverOK) != 0
	if f.protocol.has(protocolStatus) && (settled || f.statusSent) {
		f.statusSent = true
		if err := f.channel.tell(message{request: setStatus, u64: uint64(s)}); err != nil {
			return err
		}
	}
	f.status = s
	return nil
}

// Reset stops every ring, waits until the back end has let go of it, and
// forgets the features. A back end that has not done so within the time-out is
// given up.
func (f *Frontend) Reset(timeout time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.channel.deadline = time.Now().Add(timeout)
	defer func() { f.channel.deadline = time.Time{} }()
	return f.wrap("reset", f.reset())
}

func (f *Frontend) reset() error {
	if err := f.connected(); err != nil {
		return err
	}
	if err := f.stopRings(); err != nil {
		return err
	}
	if f.statusSent {
		if err := f.channel.tell(message{request: setStatus}); err != nil {
			return err
		}
	}
	f.status, f.statusSent, f.featuresOK, f.sentMem = 0, false, false, false
	return nil
}

// configSize is the size in bytes of the configuration space: up to the MTU.
const configSize = virtio.ConfigMTU + 2

// ReadConfig reads the configuration space that the front end has in place of
// the back end. The link is up while the connection stands.
func (f *Frontend) ReadConfig(offset int, b []byte) error {
	if offset < 0 || offset > configSize || len(b) > configSize-offset {
		return f.wrap("read the configuration", fmt.Errorf("bytes %d to %d of %d", offset, offset+len(b), configSize))
	}
	var space [configSize]byte
	copy(space[virtio.ConfigMAC:], f.cfg.MAC)
	if f.connected() == nil {
		binary.LittleEndian.PutUint16(space[virtio.ConfigStatus:], virtio.NetStatusLinkUp)
	}
	binary.LittleEndian.PutUint16(space[virtio.ConfigMaxPairs:], uint16(f.cfg.Queues))
	copy(b, space[offset:])
	return nil
}
