package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"vionet/virtio"
)

// configSize is the size in bytes of the configuration space that both halves
// have: up to the MTU (virtio 1.2, section 5.1.4).
const configSize = virtio.ConfigMTU + 2

// offerConfig adds the features that the configuration space stands for.
func (cfg *BackendConfig) offerConfig() (offer virtio.Features) {
	offer = virtio.NetStatus
	if cfg.MAC != nil {
		offer |= virtio.NetMAC
	}
	if cfg.MTU != 0 {
		offer |= virtio.NetMTU
	}
	return offer
}

// SetLink says whether the link is up, as it is in the beginning. A front end
// that has asked for it is told of a change.
func (b *Backend) SetLink(up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.linkDown != up {
		return
	}
	b.linkDown = !up
	b.sendRequest(backendConfigChange, nil)
}

// sendRequest tells a front end that has asked for it of something. One that
// does not read is told no more. The caller holds the lock.
func (b *Backend) sendRequest(r backendRequest, body []byte) {
	if b.requests == nil {
		return
	}
	err := b.requests.sendRaw(uint32(r), flagVersion, body)
	if err == nil {
		return
	}
	b.requests.sock.Close()
	b.requests = nil
	if !errors.Is(err, unix.EPIPE) { // otherwise it is leaving
		b.cfg.Log.Warn("vhost: the front end does not take messages of the back end", "cause", err)
	}
}

// configSpace is what a front end reads.
func (b *Backend) configSpace() (space [configSize]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	copy(space[virtio.ConfigMAC:], b.mac)
	if !b.linkDown {
		binary.LittleEndian.PutUint16(space[virtio.ConfigStatus:], virtio.NetStatusLinkUp)
	}
	binary.LittleEndian.PutUint16(space[virtio.ConfigMaxPairs:], uint16(b.Pairs()))
	binary.LittleEndian.PutUint16(space[virtio.ConfigMTU:], uint16(b.mtu))
	return space
}

// MTU is the largest packet in bytes that the front end was told to send, or
// has told to be sent; 0: nothing was said.
func (b *Backend) MTU() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mtu
}

// handleConfig answers the messages about the configuration space.
func (s *session) handleConfig(m message) (*answer, error) {
	b := s.backend
	switch m.request {
	case netSetMTU:
		if m.u64 < uint64(virtio.MinMTU) || m.u64 > 65535 {
			return nil, fmt.Errorf("an MTU of %d: must be %d to 65535", m.u64, virtio.MinMTU)
		}
		b.mu.Lock()
		b.mtu = int(m.u64)
		b.mu.Unlock()
		return nil, nil
	case setConfig:
		// The address is all that a driver can write, in its place as a whole.
		if m.config.offset != virtio.ConfigMAC || len(m.config.bytes) != 6 {
			return nil, errors.New("only the MAC address can be written")
		}
		b.mu.Lock()
		b.mac = append(b.mac[:0:0], m.config.bytes...)
		b.mu.Unlock()
		return nil, nil
	}
	space := b.configSpace()
	reply := message{config: configSpace{offset: m.config.offset}}
	if end := uint64(m.config.offset) + uint64(len(m.config.bytes)); end <= configSize {
		reply.config.bytes = space[m.config.offset:end]
	}
	return &answer{message: reply}, nil
}

// setRequests takes the socket over which the front end hears of changes; the
// one before it is closed.
func (b *Backend) setRequests(timeout time.Duration, fds []int) error {
	fd := fds[0]
	fds[0] = -1
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return err
	}
	sock, err := adoptSocket(fd)
	if err != nil {
		return fmt.Errorf("the socket for requests of the back end: %w", err)
	}
	b.dropRequests()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = &conn{sock: sock, timeout: timeout}
	return nil
}

func (b *Backend) dropRequests() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests != nil {
		b.requests.sock.Close()
		b.requests = nil
	}
}
