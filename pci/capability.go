package pci

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of Capabilities, for errors.Is.
var (
	// ErrNotModern: the function has none of the structures of a modern
	// virtio device.
	ErrNotModern = errors.New("not a modern virtio device")
	// ErrCapability: a structure is missing or can't be where it is said to
	// be.
	ErrCapability = errors.New("broken virtio capability")
	// ErrConfigTruncated: the configuration space ends before its
	// capabilities do.
	ErrConfigTruncated = errors.New("configuration space cut short")
)

// Fields of struct virtio_pci_cap (virtio 1.2, section 4.1.4).
const (
	capVendor        = 0x09 // id of a vendor-specific capability
	capNext          = 1
	capLen           = 2
	capType          = 3
	capBAR           = 4
	capOffset        = 8
	capLength        = 12
	capSize          = 16
	capNotifyMult    = 16
	capNotifySize    = 20
	maxCapabilities  = 48 // as many as fit in 256 bytes
	numBARs          = 6
	commonConfigSize = 56
)

// structureType is the cfg_type of a capability.
type structureType uint8

// The structures that a driver needs.
const (
	structCommon structureType = 1 + iota
	structNotify
	structISR
	structDevice
)

func (s structureType) String() string {
	return [...]string{"", "common configuration", "notification", "ISR status", "device configuration"}[s]
}

// structureRules is what a structure must hold at least (in bytes), and the
// alignment of its offset (section 4.1.4).
var structureRules = [...]struct{ size, align uint32 }{
	structCommon: {commonConfigSize, 4},
	structNotify: {2, 2},
	structISR:    {1, 1},
	structDevice: {1, 4},
}

// Structure is where a structure of a modern virtio device lies.
type Structure struct {
	BAR    int    // number of the base address register
	Offset uint32 // bytes from the BAR's start
	Length uint32 // bytes
}

// Capabilities are the structures of a modern virtio device (virtio 1.2,
// section 4.1.4).
type Capabilities struct {
	Common, Notify, ISR, Device Structure // by the specification's names
	// NotifyMultiplier is the distance in bytes between the notification
	// registers of two queues, a power of two, or 0 when all share one.
	NotifyMultiplier uint32
}

// FindCapabilities walks the capability list in a function's configuration
// space. bars are the sizes of its BARs in bytes, 0 for one that is not
// there. For each structure the first usable capability counts (section
// 4.1.4.1). Nothing in config is trusted; a walk ends after 48 capabilities.
func FindCapabilities(config []byte, bars [6]uint64) (Capabilities, error) {
	w := capabilityWalk{config: config, bars: bars}
	if err := w.run(); err != nil {
		return Capabilities{}, err
	}
	return w.found, nil
}

// capabilityWalk holds what a walk knows so far.
type capabilityWalk struct {
	config  []byte
	bars    [numBARs]uint64
	found   Capabilities
	have    [structDevice + 1]bool
	reasons [structDevice + 1]error // why a capability of that type was not usable
}

func (w *capabilityWalk) run() error {
	if len(w.config) < cfgHeaderSize {
		return fmt.Errorf("%w: %d bytes", ErrConfigTruncated, len(w.config))
	}
	for at := range capabilityOffsets(w.config) {
		if at+2 > len(w.config) {
			return w.truncated(at)
		}
		if w.config[at] == capVendor {
			if err := w.vendor(at); err != nil {
				return err
			}
		}
	}
	return w.complete()
}

func (w *capabilityWalk) truncated(at int) error {
	return fmt.Errorf("%w: %d bytes, with a capability at %#x: run as root", ErrConfigTruncated, len(w.config), at)
}

// vendor looks at a vendor-specific capability. Its length is a minimum:
// padding may follow the fields.
func (w *capabilityWalk) vendor(at int) error {
	if at+capType >= len(w.config) {
		return w.truncated(at)
	}
	kind := structureType(w.config[at+capType])
	if kind < structCommon || kind > structDevice || w.have[kind] {
		return nil
	}
	need := capSize
	if kind == structNotify {
		need = capNotifySize
	}
	if length := int(w.config[at+capLen]); length < need {
		w.refuse(kind, "its capability at %#x has %d bytes and needs %d", at, length, need)
		return nil
	}
	if at+need > len(w.config) {
		return w.truncated(at)
	}
	if w.config[at+capBAR] >= numBARs {
		return nil // a reserved value: skip the capability (section 4.1.4.1)
	}
	w.take(kind, at)
	return nil
}

// take notes a structure down if it lies within its BAR.
func (w *capabilityWalk) take(kind structureType, at int) {
	s := Structure{
		BAR:    int(w.config[at+capBAR]),
		Offset: binary.LittleEndian.Uint32(w.config[at+capOffset:]),
		Length: binary.LittleEndian.Uint32(w.config[at+capLength:]),
	}
	rule, size := structureRules[kind], w.bars[s.BAR]
	end := uint64(s.Offset) + uint64(s.Length)
	switch {
	case end > 1<<32:
		w.refuse(kind, "offset %#x and length %#x overflow", s.Offset, s.Length)
		return
	case end > size:
		w.refuse(kind, "offset %#x and length %#x do not fit in BAR %d of %#x bytes", s.Offset, s.Length, s.BAR, size)
		return
	case s.Length < rule.size:
		w.refuse(kind, "it has %d bytes and needs %d", s.Length, rule.size)
		return
	case s.Offset%rule.align != 0:
		w.refuse(kind, "offset %#x is not a multiple of %d", s.Offset, rule.align)
		return
	}
	switch kind {
	case structCommon:
		w.found.Common = s
	case structNotify:
		multiplier := binary.LittleEndian.Uint32(w.config[at+capNotifyMult:])
		if multiplier == 1 || multiplier&(multiplier-1) != 0 {
			w.refuse(kind, "multiplier %d is not 0 or an even power of two", multiplier)
			return
		}
		w.found.Notify, w.found.NotifyMultiplier = s, multiplier
	case structISR:
		w.found.ISR = s
	case structDevice:
		w.found.Device = s
	}
	w.have[kind] = true
}

// refuse remembers the first reason why a type's capability was not usable.
func (w *capabilityWalk) refuse(kind structureType, format string, args ...any) {
	if w.reasons[kind] == nil {
		w.reasons[kind] = fmt.Errorf("%w: %v structure: %s", ErrCapability, kind, fmt.Sprintf(format, args...))
	}
}

// complete reports the first structure that is missing.
func (w *capabilityWalk) complete() error {
	any := false
	for kind := structCommon; kind <= structDevice; kind++ {
		any = any || w.have[kind] || w.reasons[kind] != nil
	}
	if !any {
		return fmt.Errorf("%w: it has no virtio capabilities", ErrNotModern)
	}
	for kind := structCommon; kind <= structDevice; kind++ {
		if w.have[kind] {
			continue
		}
		if w.reasons[kind] != nil {
			return w.reasons[kind]
		}
		return fmt.Errorf("%w: no %v structure", ErrCapability, kind)
	}
	return nil
}
