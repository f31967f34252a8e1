package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"

	"vionet/port"
	"vionet/virtio"
)

// ReadConfig reads the configuration space: what the back end has of it, and
// what the front end has in its place. The link is up while there is a back end
// that goes on where the last one was, and that does not say otherwise.
func (f *Frontend) ReadConfig(offset int, b []byte) error {
	if offset < 0 || offset > configSize || len(b) > configSize-offset {
		return f.wrap("read the configuration", fmt.Errorf("bytes %d to %d of %d", offset, offset+len(b), configSize))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	space, err := f.configSpace()
	copy(b, space[offset:])
	return f.wrap("read the configuration", err)
}

// configSpace puts the configuration space together. While there is no back
// end, its part is as it was.
func (f *Frontend) configSpace() (space [configSize]byte, err error) {
	linked := true // as far as the back end is concerned
	if f.connected() == nil && f.peer.protocol.has(protocolConfig) {
		if err := f.askConfig(); err != nil && !errors.Is(err, ErrDisconnected) {
			return space, err
		}
		if f.peer.offered.Has(virtio.NetStatus) {
			linked = f.space[virtio.ConfigStatus]&byte(virtio.NetStatusLinkUp) != 0
		}
	}
	space = f.space
	if f.cfg.MAC != nil {
		copy(space[virtio.ConfigMAC:], f.cfg.MAC)
	}
	if f.cfg.MTU != 0 {
		binary.LittleEndian.PutUint16(space[virtio.ConfigMTU:], uint16(f.cfg.MTU))
	}
	var status uint16
	if linked && f.connected() == nil && !f.status.Has(virtio.StatusNeedsReset) {
		status = virtio.NetStatusLinkUp
	}
	binary.LittleEndian.PutUint16(space[virtio.ConfigStatus:], status)
	binary.LittleEndian.PutUint16(space[virtio.ConfigMaxPairs:], uint16(f.cfg.Queues))
	return space, nil
}

// askConfig reads the back end's configuration space into f.space.
func (f *Frontend) askConfig() error {
	m, err := f.peer.channel.ask(message{request: getConfig, config: configSpace{bytes: make([]byte, configSize)}})
	if err != nil {
		return err
	}
	if len(m.config.bytes) != configSize || m.config.offset != 0 {
		return fmt.Errorf("the back end gave %d bytes at %d instead of %d at 0", len(m.config.bytes), m.config.offset, configSize)
	}
	f.space = [configSize]byte(m.config.bytes)
	return nil
}

// WriteConfig writes to the back end's configuration space, such as the MAC
// address of a device without a control queue. A back end that has none is an
// error that wraps port.ErrNotSupported.
func (f *Frontend) WriteConfig(offset int, b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.connected()
	switch {
	case err != nil:
	case offset < 0 || offset > configSize || len(b) > configSize-offset:
		err = fmt.Errorf("bytes %d to %d of %d", offset, offset+len(b), configSize)
	case !f.peer.protocol.has(protocolConfig):
		err = fmt.Errorf("the back end has none: %w", port.ErrNotSupported)
	default:
		err = f.peer.channel.tell(message{request: setConfig, config: configSpace{offset: uint32(offset), bytes: b}})
	}
	return f.wrap("write the configuration", err)
}
