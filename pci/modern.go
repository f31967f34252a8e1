package pci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"vionet/port"
	"vionet/virtio"
)

// Registers of the common configuration structure (virtio 1.2, section
// 4.1.4.3), offsets in bytes.
const (
	regDeviceFeatureSelect = 0  // u32
	regDeviceFeature       = 4  // u32
	regDriverFeatureSelect = 8  // u32
	regDriverFeature       = 12 // u32
	regConfigVector        = 16 // u16
	regNumQueues           = 18 // u16
	regDeviceStatus        = 20 // u8
	regConfigGeneration    = 21 // u8
	regQueueSelect         = 22 // u16
	regQueueSize           = 24 // u16
	regQueueVector         = 26 // u16
	regQueueEnable         = 28 // u16
	regQueueNotifyOff      = 30 // u16
	regQueueDesc           = 32 // u64, written as two u32
	regQueueDriver         = 40 // u64
	regQueueDevice         = 48 // u64
)

// noVector tells the device to send no interrupt.
const noVector = 0xffff

// statusGone is what the status of a device reads as that is not there.
const statusGone = 0xff

// generationRetries bounds the reads of a configuration that keeps changing.
const generationRetries = 100

var errGone = errors.New("the device does not answer: it was removed, or its memory decoding is off")

// modern is a modern virtio-pci device's registers, behind the transport's
// methods. It has no state of its own.
type modern struct {
	common, notify, device registers
	notifyMultiplier       uint32
}

// openModern opens the windows of the structures that polling takes: the
// interrupt status is read by nobody.
func openModern(a access, c Capabilities) (*modern, error) {
	m := &modern{notifyMultiplier: c.NotifyMultiplier}
	for _, w := range []struct {
		at Structure
		to *registers
	}{{c.Common, &m.common}, {c.Notify, &m.notify}, {c.Device, &m.device}} {
		r, err := a.window(w.at)
		if err != nil {
			return nil, join(err, m.close())
		}
		*w.to = r
	}
	return m, nil
}

func (m *modern) close() error {
	var errs []error
	for _, r := range []registers{m.common, m.notify, m.device} {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	return join(errs...)
}

func (m *modern) status() (virtio.Status, error) {
	s := m.common.read8(regDeviceStatus)
	if s == statusGone {
		return 0, errGone
	}
	return virtio.Status(s), nil
}

func (m *modern) setStatus(s virtio.Status) { m.common.write8(regDeviceStatus, uint8(s)) }

// reset writes status 0 and waits until it reads back so (section 4.1.4.3.2).
func (m *modern) reset(timeout time.Duration) error {
	const step = time.Millisecond
	m.setStatus(0)
	for deadline := time.Now().Add(timeout); ; time.Sleep(step) {
		s, err := m.status()
		if err != nil {
			return err
		}
		if s == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the device did not become quiet within %v: its status is still %v", timeout, s)
		}
	}
	m.common.write16(regConfigVector, noVector)
	return nil
}

func (m *modern) features() virtio.Features {
	var f virtio.Features
	for word := range uint32(2) {
		m.common.write32(regDeviceFeatureSelect, word)
		f |= virtio.Features(m.common.read32(regDeviceFeature)) << (32 * word)
	}
	return f
}

func (m *modern) setFeatures(f virtio.Features) {
	for word := range uint32(2) {
		m.common.write32(regDriverFeatureSelect, word)
		m.common.write32(regDriverFeature, uint32(f>>(32*word)))
	}
}

// readConfig reads the device's configuration until nothing changed in
// between (section 2.5.1).
func (m *modern) readConfig(offset int, b []byte) error {
	if offset < 0 || offset+len(b) > m.device.size() {
		return fmt.Errorf("read of %d bytes at %d of the device configuration: it has %d", len(b), offset, m.device.size())
	}
	for range generationRetries {
		before := m.common.read8(regConfigGeneration)
		m.copyConfig(offset, b)
		if m.common.read8(regConfigGeneration) == before {
			return nil
		}
	}
	return fmt.Errorf("the device configuration changed during each of %d reads", generationRetries)
}

// copyConfig reads a field of 2, 4 or 8 aligned bytes at the width of its
// type, u64 in two halves, and anything else by bytes (section 4.1.3.1).
func (m *modern) copyConfig(offset int, b []byte) {
	switch {
	case len(b) == 2 && offset%2 == 0:
		binary.LittleEndian.PutUint16(b, m.device.read16(offset))
	case (len(b) == 4 || len(b) == 8) && offset%4 == 0:
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], m.device.read32(offset+i))
		}
	default:
		for i := range b {
			b[i] = m.device.read8(offset + i)
		}
	}
}

// selectQueue selects a virtqueue and gives its largest size, 0 when there is
// no such queue.
func (m *modern) selectQueue(index int) (int, error) {
	if index < 0 || index >= int(m.common.read16(regNumQueues)) {
		return 0, nil
	}
	m.common.write16(regQueueSelect, uint16(index))
	size := int(m.common.read16(regQueueSize))
	if size > 1<<15 {
		return 0, fmt.Errorf("virtqueue %d: the device gives it %d descriptors: at most 32768 are allowed", index, size)
	}
	return size, nil
}

// setupQueue describes a virtqueue and enables it (section 4.1.5.1.3).
func (m *modern) setupQueue(q port.QueueSetup) (*notifier, error) {
	if q.Base != 0 {
		return nil, fmt.Errorf("virtqueue %d: a start at entry %d: %w over PCI", q.Index, q.Base, port.ErrNotSupported)
	}
	largest, err := m.selectQueue(q.Index)
	if err != nil {
		return nil, err
	}
	if largest == 0 {
		return nil, fmt.Errorf("virtqueue %d does not exist: %w: ask for fewer queues", q.Index, port.ErrInvalid)
	}
	if q.Size < 1 || q.Size > largest {
		return nil, fmt.Errorf("virtqueue %d of %d descriptors: %w: the device takes 1 to %d", q.Index, q.Size, port.ErrInvalid, largest)
	}
	at := uint64(m.common.read16(regQueueNotifyOff)) * uint64(m.notifyMultiplier)
	if at+2 > uint64(m.notify.size()) {
		return nil, fmt.Errorf("virtqueue %d: its notification register at %#x lies outside the structure of %#x bytes", q.Index, at, m.notify.size())
	}
	m.common.write16(regQueueSize, uint16(q.Size))
	m.common.write16(regQueueVector, noVector)
	m.writeAddress(regQueueDesc, q.Desc.IOVA)
	m.writeAddress(regQueueDriver, q.Avail.IOVA)
	m.writeAddress(regQueueDevice, q.Used.IOVA)
	m.common.write16(regQueueEnable, 1)
	return &notifier{notify: m.notify, offset: int(at), index: uint16(q.Index)}, nil
}

func (m *modern) writeAddress(reg int, address uint64) {
	m.common.write32(reg, uint32(address))
	m.common.write32(reg+4, uint32(address>>32))
}

// notifier is a queue's notification register (section 4.1.5.2).
type notifier struct {
	notify registers
	offset int
	index  uint16
}

// Kick tells the device to look at the queue.
func (n *notifier) Kick() { n.notify.write16(n.offset, n.index) }
