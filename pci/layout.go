package pci

import (
	"encoding/binary"
	"fmt"
	"time"

	"vionet/port"
	"vionet/virtio"
)

// layout is one of the two register layouts of virtio over PCI, modern or
// legacy, with a device behind it. Its methods belong to one goroutine at a
// time, interruptStatus to any.
type layout interface {
	// name is "modern" or "legacy".
	name() string

	// status reads the device status; a device that is not there reads as all
	// ones, which is an error that wraps ErrGone.
	status() (virtio.Status, error)
	setStatus(s virtio.Status)
	// reset writes status 0 and waits until it reads back so (virtio 1.2,
	// section 4.1.4.3.2).
	reset(timeout time.Duration) error

	features() virtio.Features
	setFeatures(f virtio.Features) error
	// readConfig reads the device configuration, coherent within the call.
	readConfig(offset int, b []byte) error

	// queueSize gives the largest size of a virtqueue, 0 when there is none.
	queueSize(index int) (int, error)
	// setupQueue describes a virtqueue and enables it. It sends its interrupts
	// to the MSI-X vector, or none with noVector.
	setupQueue(q port.QueueSetup, vector uint16) (port.Kicker, error)
	// resetQueue disables a single virtqueue.
	resetQueue(index int, timeout time.Duration) error

	// setConfigVector says which MSI-X vector tells of changes of the
	// configuration.
	setConfigVector(vector uint16) error
	// interruptStatus reads the ISR status, which clears it and takes the
	// interrupt line back.
	interruptStatus() uint8

	close() error
}

// noVector tells the device to send no interrupt.
const noVector = 0xffff

// statusGone is what the status of a device reads as that is not there.
const statusGone = 0xff

// Bits of the ISR status (section 4.1.4.5).
const (
	isrQueue  = 1 << 0
	isrConfig = 1 << 1
	isrGone   = 0xff // as on a bus where nobody answers
)

// checkStatus tells the status of a device that is there.
func checkStatus(register uint8) (virtio.Status, error) {
	if register == statusGone {
		return 0, fmt.Errorf("%w: its registers read as all ones", ErrGone)
	}
	return virtio.Status(register), nil
}

// resetDevice is the reset of either layout.
func resetDevice(l layout, timeout time.Duration) error {
	l.setStatus(0)
	var last virtio.Status
	quiet, err := poll(timeout, func() (bool, error) {
		var err error
		last, err = l.status()
		return last == 0, err
	})
	if err == nil && !quiet {
		err = fmt.Errorf("the device did not become quiet within %v: its status is still %v", timeout, last)
	}
	return err
}

// poll asks once a millisecond until done says so or fails, or the time is
// over.
func poll(timeout time.Duration, done func() (bool, error)) (bool, error) {
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		ok, err := done()
		if ok || err != nil || time.Now().After(deadline) {
			return ok, err
		}
	}
}

// checkConfig says whether a read lies within a device configuration.
func checkConfig(offset, length, size int) error {
	if offset < 0 || offset+length > size {
		return fmt.Errorf("read of %d bytes at %d of the device configuration: it has %d", length, offset, size)
	}
	return nil
}

// copyRegisters reads a field of 2, 4 or 8 aligned bytes at the width of its
// type, u64 in two halves, and anything else by bytes (section 4.1.3.1).
func copyRegisters(r registers, offset int, b []byte) {
	switch {
	case len(b) == 2 && offset%2 == 0:
		binary.LittleEndian.PutUint16(b, r.read16(offset))
	case (len(b) == 4 || len(b) == 8) && offset%4 == 0:
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], r.read32(offset+i))
		}
	default:
		for i := range b {
			b[i] = r.read8(offset + i)
		}
	}
}

// checkQueue says what of a set-up can't be done over PCI; largest is the
// device's size of the virtqueue, 0 when there is none.
func checkQueue(q port.QueueSetup, largest int) error {
	switch {
	case q.Base != 0:
		return fmt.Errorf("virtqueue %d: a start at entry %d: %w over PCI", q.Index, q.Base, port.ErrNotSupported)
	case largest == 0:
		return fmt.Errorf("virtqueue %d does not exist: %w: ask for fewer queues", q.Index, port.ErrInvalid)
	case q.Size < 1 || q.Size > largest:
		return fmt.Errorf("virtqueue %d of %d descriptors: %w: the device takes 1 to %d", q.Index, q.Size, port.ErrInvalid, largest)
	}
	return nil
}

// checkSize says whether a device may give a virtqueue that many descriptors.
func checkSize(index, size int) error {
	if size > 1<<15 {
		return fmt.Errorf("virtqueue %d: the device gives it %d descriptors: at most 32768 are allowed", index, size)
	}
	return nil
}

// vectorRefused says that a device has no room for one more vector.
func vectorRefused(what string, vector uint16) error {
	return fmt.Errorf("%s: the device refuses MSI-X vector %d: it has too few resources", what, vector)
}
