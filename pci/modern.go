package pci

import (
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
	regQueueReset          = 58 // u16, under RING_RESET
	endQueueReset          = 60
)

// configRetries bounds the reads of a configuration that keeps changing.
const configRetries = 100

// modern is the layout of virtio 1.0 and later.
type modern struct {
	common, notify, isr, device registers
	notifyMultiplier            uint32
	accepted                    virtio.Features // since the last reset
}

// openModern opens the windows of the structures.
func openModern(a access, c Capabilities) (*modern, error) {
	m := &modern{notifyMultiplier: c.NotifyMultiplier}
	for _, w := range []struct {
		at Structure
		to *registers
	}{{c.Common, &m.common}, {c.Notify, &m.notify}, {c.ISR, &m.isr}, {c.Device, &m.device}} {
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
	for _, r := range []registers{m.common, m.notify, m.isr, m.device} {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	return join(errs...)
}

func (m *modern) name() string { return "modern" }

func (m *modern) status() (virtio.Status, error) {
	return checkStatus(m.common.read8(regDeviceStatus))
}

func (m *modern) setStatus(s virtio.Status) { m.common.write8(regDeviceStatus, uint8(s)) }

func (m *modern) reset(timeout time.Duration) error {
	m.accepted = 0
	return resetDevice(m, timeout)
}

func (m *modern) features() virtio.Features {
	var f virtio.Features
	for word := range uint32(2) {
		m.common.write32(regDeviceFeatureSelect, word)
		f |= virtio.Features(m.common.read32(regDeviceFeature)) << (32 * word)
	}
	return f
}

func (m *modern) setFeatures(f virtio.Features) error {
	for word := range uint32(2) {
		m.common.write32(regDriverFeatureSelect, word)
		m.common.write32(regDriverFeature, uint32(f>>(32*word)))
	}
	m.accepted = f
	return nil
}

// readConfig reads the device's configuration until nothing changed in
// between (section 2.5.1).
func (m *modern) readConfig(offset int, b []byte) error {
	if err := checkConfig(offset, len(b), m.device.size()); err != nil {
		return err
	}
	for range configRetries {
		before := m.common.read8(regConfigGeneration)
		copyRegisters(m.device, offset, b)
		if m.common.read8(regConfigGeneration) == before {
			return nil
		}
	}
	return fmt.Errorf("the device configuration changed during each of %d reads", configRetries)
}

// queueSize selects the virtqueue as well.
func (m *modern) queueSize(index int) (int, error) {
	if index < 0 || index >= int(m.common.read16(regNumQueues)) {
		return 0, nil
	}
	m.common.write16(regQueueSelect, uint16(index))
	size := int(m.common.read16(regQueueSize))
	return size, checkSize(index, size)
}

// setupQueue describes a virtqueue and enables it (section 4.1.5.1.3).
func (m *modern) setupQueue(q port.QueueSetup, vector uint16) (port.Kicker, error) {
	largest, err := m.queueSize(q.Index)
	if err != nil {
		return nil, err
	}
	if err := checkQueue(q, largest); err != nil {
		return nil, err
	}
	kicker, err := m.kicker(q.Index)
	if err != nil {
		return nil, err
	}
	m.common.write16(regQueueSize, uint16(q.Size))
	m.common.write16(regQueueVector, vector)
	if vector != noVector && m.common.read16(regQueueVector) != vector {
		return nil, vectorRefused(fmt.Sprintf("virtqueue %d", q.Index), vector)
	}
	m.writeAddress(regQueueDesc, q.Desc.IOVA)
	m.writeAddress(regQueueDriver, q.Avail.IOVA)
	m.writeAddress(regQueueDevice, q.Used.IOVA)
	m.common.write16(regQueueEnable, 1)
	return kicker, nil
}

func (m *modern) writeAddress(reg int, address uint64) {
	m.common.write32(reg, uint32(address))
	m.common.write32(reg+4, uint32(address>>32))
}

// kicker finds the notification register of the selected virtqueue.
func (m *modern) kicker(index int) (port.Kicker, error) {
	at := uint64(m.common.read16(regQueueNotifyOff)) * uint64(m.notifyMultiplier)
	withData := m.accepted.Has(virtio.NotificationData)
	width := uint64(2)
	if withData {
		width = 4
	}
	switch {
	case at+width > uint64(m.notify.size()):
		return nil, fmt.Errorf("virtqueue %d: its notification register at %#x lies outside the structure of %#x bytes", index, at, m.notify.size())
	case at%width != 0:
		return nil, fmt.Errorf("virtqueue %d: its notification register at %#x is not aligned to %d bytes", index, at, width)
	case withData:
		return &dataNotifier{notify: m.notify, offset: int(at), index: uint16(index)}, nil
	default:
		return &notifier{notify: m.notify, offset: int(at), index: uint16(index)}, nil
	}
}

// resetQueue resets a virtqueue under RING_RESET (section 4.1.4.3.2).
func (m *modern) resetQueue(index int, timeout time.Duration) error {
	if !m.accepted.Has(virtio.RingReset) {
		return fmt.Errorf("reset of virtqueue %d: %w: RING_RESET was not negotiated", index, port.ErrNotSupported)
	}
	if m.common.size() < endQueueReset {
		return fmt.Errorf("reset of virtqueue %d: %w: the device offers RING_RESET without the register", index, port.ErrNotSupported)
	}
	size, err := m.queueSize(index)
	if err != nil {
		return err
	}
	if size == 0 {
		return fmt.Errorf("reset of virtqueue %d: %w: it does not exist", index, port.ErrInvalid)
	}
	m.common.write16(regQueueReset, 1)
	quiet, err := poll(timeout, func() (bool, error) {
		if m.common.read16(regQueueReset) != 0 {
			_, err := m.status()
			return false, err
		}
		return true, nil
	})
	if err == nil && !quiet {
		err = fmt.Errorf("virtqueue %d did not become quiet within %v", index, timeout)
	}
	return err
}

func (m *modern) setConfigVector(vector uint16) error {
	m.common.write16(regConfigVector, vector)
	if vector != noVector && m.common.read16(regConfigVector) != vector {
		return vectorRefused("changes of the configuration", vector)
	}
	return nil
}

func (m *modern) interruptStatus() uint8 { return m.isr.read8(0) }
