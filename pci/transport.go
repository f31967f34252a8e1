package pci

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// openTimeout bounds the wait for a device to become quiet when it is opened
// or closed.
const openTimeout = time.Second

// Transport is a virtio network device on the PCI bus, as a driver uses it. It
// belongs to one goroutine at a time.
//
// After Close, the methods that reach the device return an error that wraps
// port.ErrClosed. Once the device was removed or the kernel asked for it back,
// they return one that wraps ErrGone; until Close, Kickers stay harmless.
type Transport struct {
	bdf        string
	log        *slog.Logger
	access     access
	regs       layout
	addressing port.Addressing
	closed     bool

	// mapping keeps the mapping of memory that grows, on whatever goroutine
	// that happens, apart from Map and Close.
	mapping     sync.Mutex
	stopGrowing func()

	interrupts *interrupts   // nil until somebody wants some
	removal    *port.EventFD // nil where nobody announces it, or watches for it
	presence   atomic.Int32  // a presence
	changed    atomic.Pointer[func()]
}

// fail puts the function's name in front of an error.
func (t *Transport) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pci: %s: %w", t.bdf, err)
}

// use is what every method asks first: is there still a device?
func (t *Transport) use() error {
	if t.closed {
		return t.fail(port.ErrClosed)
	}
	err := presence(t.presence.Load()).err()
	if err == nil {
		_, err = t.regs.status()
	}
	return t.fail(err)
}

// Name is the function's address, such as "0000:00:01.0".
func (t *Transport) Name() string { return t.bdf }

// Driver is "net_virtio".
func (t *Transport) Driver() string { return "net_virtio" }

// Addressing says which addresses the device can use: physical ones when it
// does not offer ACCESS_PLATFORM, else those that its IOMMU translates.
func (t *Transport) Addressing() port.Addressing { return t.addressing }

// Map lets the device reach mem, which must have addresses of the kind that
// Addressing asks for. The memory is locked and stays mapped until Close.
func (t *Transport) Map(mem *mbuf.Memory) error {
	if err := t.use(); err != nil {
		return err
	}
	want := t.addressing.Mode
	if want == mbuf.IOVAPhysical && mem.Mode() != want {
		return t.fail(fmt.Errorf("the device goes around the IOMMU (it does not offer ACCESS_PLATFORM, or there is none) and takes physical addresses, but the memory has addresses of mode %q: use --iova-mode=pa", mem.Mode()))
	}
	err := t.mapAll(mem)
	if err != nil && mem.Mode() == mbuf.IOVAPhysical {
		err = fmt.Errorf("%w: the IOMMU refuses physical addresses; it may translate too few bits", err)
	}
	return t.fail(err)
}

// mapAll maps the memory that there is, and what it grows by from now on.
func (t *Transport) mapAll(mem *mbuf.Memory) error {
	t.mapping.Lock()
	defer t.mapping.Unlock()
	t.stopGrowing = mem.OnGrow(t.mapGrown, t.unmapGrown)
	return t.access.mapDMA(mem.Regions())
}

// mapGrown lets the device reach new memory, also while its queues are at work.
func (t *Transport) mapGrown(added []mbuf.Region) error {
	t.mapping.Lock()
	defer t.mapping.Unlock()
	if t.closed {
		return nil
	}
	return t.fail(t.access.mapDMA(added))
}

// unmapGrown takes memory back: new one that another device can't have, or one
// that the application has back.
func (t *Transport) unmapGrown(gone []mbuf.Region) error {
	t.mapping.Lock()
	defer t.mapping.Unlock()
	if t.closed {
		return nil
	}
	return t.fail(t.access.unmapDMA(gone))
}

// Reset makes the device forget everything and waits until it has, timeout at
// most (virtio 1.2, section 2.4). A device that the kernel wants back is reset
// too, so that its memory may be freed.
func (t *Transport) Reset(timeout time.Duration) error {
	if t.closed {
		return t.fail(port.ErrClosed)
	}
	err := t.resetRegisters(timeout)
	if t.interrupts != nil {
		t.interrupts.afterReset(err == nil)
	}
	if err == nil {
		err = presence(t.presence.Load()).err()
	}
	return t.fail(err)
}

// resetRegisters resets the device, if it still has registers.
func (t *Transport) resetRegisters(timeout time.Duration) error {
	if presence(t.presence.Load()) == lost {
		return errLost
	}
	return t.regs.reset(timeout)
}

// Status reads the device status field.
func (t *Transport) Status() (virtio.Status, error) {
	if err := t.use(); err != nil {
		return 0, err
	}
	s, err := t.regs.status()
	return s, t.fail(err)
}

// SetStatus writes the device status field; a legacy device gets it without
// FEATURES_OK. Status 0 is for Reset to write.
func (t *Transport) SetStatus(s virtio.Status) error {
	if err := t.use(); err != nil {
		return err
	}
	t.regs.setStatus(s)
	return nil
}

// Features reads what the device offers; a legacy one has features 0 to 31.
func (t *Transport) Features() (virtio.Features, error) {
	if err := t.use(); err != nil {
		return 0, err
	}
	return t.regs.features(), nil
}

// SetFeatures writes what the driver accepts. Under NOTIFICATION_DATA, kicks
// tell the device how far a queue goes.
func (t *Transport) SetFeatures(accepted virtio.Features) error {
	if err := t.use(); err != nil {
		return err
	}
	return t.fail(t.regs.setFeatures(accepted))
}

// ReadConfig fills b from offset on in the device configuration, coherent
// within the call (section 2.5.1). A field of 2, 4 or 8 bytes is read at its
// width. A legacy device has fields in the byte order of the machine.
func (t *Transport) ReadConfig(offset int, b []byte) error {
	if err := t.use(); err != nil {
		return err
	}
	return t.fail(t.regs.readConfig(offset, b))
}

// QueueSize is the largest number of descriptors of a virtqueue, or 0 when
// there is no such queue.
func (t *Transport) QueueSize(index int) (int, error) {
	if err := t.use(); err != nil {
		return 0, err
	}
	size, err := t.regs.queueSize(index)
	return size, t.fail(err)
}

// SetupQueue tells the device where a virtqueue is and enables it. The error
// wraps port.ErrInvalid when the device has no such queue, or not of that
// size; a legacy device takes no other size than its own, and the three areas
// in one block as in ring.SplitLayout. The Kicker must not be used after
// Close.
func (t *Transport) SetupQueue(q port.QueueSetup) (port.Kicker, error) {
	if err := t.use(); err != nil {
		return nil, err
	}
	k, err := t.setupQueue(q)
	return k, t.fail(err)
}

func (t *Transport) setupQueue(q port.QueueSetup) (port.Kicker, error) {
	if !q.Interrupt {
		return t.regs.setupQueue(q, noVector)
	}
	if err := t.startInterrupts(); err != nil {
		return nil, err
	}
	vector, err := t.interrupts.addQueue(q.Index)
	if err != nil {
		return nil, err
	}
	k, err := t.regs.setupQueue(q, vector)
	if err != nil {
		return nil, join(err, t.interrupts.removeQueue(q.Index))
	}
	return k, nil
}

// ResetQueue makes the device forget a single virtqueue and waits until it
// has, timeout at most; SetupQueue brings it back (section 2.6.1). Where
// RING_RESET was not negotiated the error wraps port.ErrNotSupported.
func (t *Transport) ResetQueue(index int, timeout time.Duration) error {
	if err := t.use(); err != nil {
		return err
	}
	return t.fail(t.regs.resetQueue(index, timeout))
}

// MaxPairs is 1: more queue pairs take the control queue.
func (t *Transport) MaxPairs() int { return 1 }

// EnablePairs fails with port.ErrNotSupported: over PCI the control queue
// says how many queue pairs are in use.
func (t *Transport) EnablePairs(int) error {
	return t.fail(fmt.Errorf("queue pairs without the control queue: %w", port.ErrNotSupported))
}

// Close resets the device, switches its DMA off, unmaps the memory and gives
// the function back; it stays bound to its kernel driver. All of that is done
// even when a part of it fails, and whatever of it a device that is gone still
// takes. A second call does nothing.
func (t *Transport) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	if t.stopGrowing != nil {
		t.stopGrowing()
	}
	t.mapping.Lock()
	defer t.mapping.Unlock()
	err := join(t.stopWatching(), t.quiesce(), t.regs.close(), t.access.close())
	t.log.Debug("pci: closed", "bdf", t.bdf)
	return t.fail(err)
}

// quiesce resets the device and switches its DMA off. One that does not answer
// does no DMA either.
func (t *Transport) quiesce() error {
	err := t.resetRegisters(openTimeout)
	if errors.Is(err, ErrGone) {
		return nil
	}
	return join(err, t.access.setCommand(0, commandBusMaster))
}
