package pci

import (
	"bytes"
	"fmt"
	"time"

	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// Registers of a legacy device in BAR 0 (virtio 1.2, section 4.1.4.8), offsets
// in bytes. Both vectors are there only while MSI-X is enabled; the device
// configuration follows what is there.
const (
	legDeviceFeatures = 0  // u32
	legDriverFeatures = 4  // u32
	legQueueAddress   = 8  // u32, in pages
	legQueueSize      = 12 // u16
	legQueueSelect    = 14 // u16
	legQueueNotify    = 16 // u16
	legDeviceStatus   = 18 // u8
	legISR            = 19 // u8
	legConfigVector   = 20 // u16
	legQueueVector    = 22 // u16
	legConfig         = 20
	legConfigMSIX     = 24
	legWindow         = 256 // more than the longest configuration
)

// legPageShift makes a queue's address out of legQueueAddress, and bounds it
// to 44 bits.
const legPageShift = 12

// legacy is the layout from before virtio 1.0. It has 32 features, queues of a
// fixed size in one block, and no FEATURES_OK.
type legacy struct {
	access access
	bar    registers
	msix   int // offset of the MSI-X capability, 0 for none
}

// openLegacy opens the registers of a function that has no modern ones.
func openLegacy(a access, config []byte) (*legacy, error) {
	size := a.barSizes()[0]
	if size < legConfigMSIX {
		return nil, fmt.Errorf("%w: its BAR 0 of %d bytes has no room for the registers of a legacy one either", ErrNotModern, size)
	}
	bar, err := a.window(Structure{BAR: 0, Length: uint32(min(size, legWindow))})
	if err != nil {
		return nil, err
	}
	return &legacy{access: a, bar: bar, msix: findMSIX(config)}, nil
}

func (l *legacy) close() error { return l.bar.close() }

func (l *legacy) name() string { return "legacy" }

func (l *legacy) status() (virtio.Status, error) { return checkStatus(l.bar.read8(legDeviceStatus)) }

// setStatus leaves FEATURES_OK out, which a legacy device does not know.
func (l *legacy) setStatus(s virtio.Status) {
	l.bar.write8(legDeviceStatus, uint8(s&^virtio.StatusFeaturesOK))
}

func (l *legacy) reset(timeout time.Duration) error { return resetDevice(l, timeout) }

func (l *legacy) features() virtio.Features {
	return virtio.Features(l.bar.read32(legDeviceFeatures))
}

func (l *legacy) setFeatures(f virtio.Features) error {
	if high := f >> 32 << 32; high != 0 {
		return fmt.Errorf("features %v: %w: a legacy device has none above bit 31", high, port.ErrNotSupported)
	}
	l.bar.write32(legDriverFeatures, uint32(f))
	return nil
}

// messageSignalled reports whether MSI-X is enabled now. That the function has
// the capability says nothing about where its registers are.
func (l *legacy) messageSignalled() (bool, error) {
	if l.msix == 0 {
		return false, nil
	}
	control, err := l.access.config16(l.msix + msixControl)
	return control&msixEnable != 0, err
}

// readConfig reads the configuration until it is twice the same: there is no
// generation counter (section 2.5.4).
func (l *legacy) readConfig(offset int, b []byte) error {
	base := legConfig
	enabled, err := l.messageSignalled()
	if err != nil {
		return err
	}
	if enabled {
		base = legConfigMSIX
	}
	if err := checkConfig(offset, len(b), l.bar.size()-base); err != nil {
		return err
	}
	again := make([]byte, len(b))
	copyRegisters(l.bar, base+offset, b)
	for range configRetries {
		copyRegisters(l.bar, base+offset, again)
		if bytes.Equal(b, again) {
			return nil
		}
		copy(b, again)
	}
	return fmt.Errorf("the device configuration changed between each two of %d reads", configRetries)
}

// queueSize selects the virtqueue as well. There is no number of queues: one
// that is not there has size 0.
func (l *legacy) queueSize(index int) (int, error) {
	if index < 0 || index > 0xffff {
		return 0, nil
	}
	l.bar.write16(legQueueSelect, uint16(index))
	size := int(l.bar.read16(legQueueSize))
	return size, checkSize(index, size)
}

func (l *legacy) setupQueue(q port.QueueSetup, vector uint16) (port.Kicker, error) {
	size, err := l.queueSize(q.Index)
	if err != nil {
		return nil, err
	}
	if err := checkQueue(q, size); err != nil {
		return nil, err
	}
	if err := checkLegacyRing(q, size); err != nil {
		return nil, fmt.Errorf("virtqueue %d: %w", q.Index, err)
	}
	if err := l.setQueueVector(q.Index, vector); err != nil {
		return nil, err
	}
	l.bar.write32(legQueueAddress, uint32(q.Desc.IOVA>>legPageShift))
	return &notifier{notify: l.bar, offset: legQueueNotify, index: uint16(q.Index)}, nil
}

// checkLegacyRing says why the device could not find the areas of a ring: it
// is told the first and computes the others (section 2.7.2).
func checkLegacyRing(q port.QueueSetup, size int) error {
	if q.Size != size {
		return fmt.Errorf("%d descriptors: %w: a legacy device takes its own number, %d", q.Size, port.ErrInvalid, size)
	}
	l, err := ring.NewSplitLayout(size)
	if err != nil {
		return err
	}
	start := q.Desc.IOVA
	switch {
	case q.Avail.IOVA != start+uint64(l.AvailOff) || q.Used.IOVA != start+uint64(l.UsedOff):
		return fmt.Errorf("areas at device addresses %#x, %#x and %#x: %w: a legacy device wants them in one block, the available ring %#x and the used ring %#x bytes behind the descriptors",
			start, q.Avail.IOVA, q.Used.IOVA, port.ErrInvalid, l.AvailOff, l.UsedOff)
	case start%ring.UsedAlign != 0:
		return fmt.Errorf("device address %#x: %w: a legacy device wants a multiple of %d", start, port.ErrInvalid, ring.UsedAlign)
	case start>>legPageShift > 0xffffffff:
		return fmt.Errorf("device address %#x: %w: a legacy device reaches rings below 16 TiB only", start, port.ErrInvalid)
	}
	return nil
}

// setQueueVector writes the vector of the selected virtqueue where there is
// such a register; without it the queue has no vector anyway.
func (l *legacy) setQueueVector(index int, vector uint16) error {
	return l.setVector(legQueueVector, fmt.Sprintf("virtqueue %d", index), vector)
}

func (l *legacy) setConfigVector(vector uint16) error {
	return l.setVector(legConfigVector, "changes of the configuration", vector)
}

func (l *legacy) setVector(reg int, what string, vector uint16) error {
	enabled, err := l.messageSignalled()
	switch {
	case err != nil:
		return err
	case !enabled && vector == noVector:
		return nil
	case !enabled:
		return fmt.Errorf("%s: MSI-X vector %d: %w: MSI-X is off", what, vector, port.ErrState)
	}
	l.bar.write16(reg, vector)
	if vector != noVector && l.bar.read16(reg) != vector {
		return vectorRefused(what, vector)
	}
	return nil
}

func (l *legacy) resetQueue(index int, _ time.Duration) error {
	return fmt.Errorf("reset of virtqueue %d: %w by a legacy device", index, port.ErrNotSupported)
}

func (l *legacy) interruptStatus() uint8 { return l.bar.read8(legISR) }
