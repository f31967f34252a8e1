package pci

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// closeTimeout bounds the wait for a device to become quiet when it is opened
// or closed.
const closeTimeout = time.Second

// ErrAccess is wrapped when a function has a kernel driver through which it
// can't be opened.
var ErrAccess = errors.New("not bound to vfio-pci")

// Options are what Open may be told.
type Options struct {
	Log *slog.Logger // nil discards
}

// Transport is a modern virtio network device on the PCI bus, as a driver
// uses it. It belongs to one goroutine at a time. After Close, the methods that
// reach the device return an error that wraps port.ErrClosed.
type Transport struct {
	bdf        string
	log        *slog.Logger
	access     access
	regs       *modern
	addressing port.Addressing
	closed     bool
}

// Open opens the virtio network function at an address, which must be bound
// to vfio-pci, and resets it. The caller closes the transport, also before the
// program ends by a signal or a panic; a function whose process dies all the
// same is reset by the kernel.
//
// The error says what to do; it wraps ErrNoFunction, ErrAccess, ErrNoIOMMU,
// ErrGroupShared, ErrNotModern or ErrCapability where one of these is the
// reason.
func Open(t Tree, address string, o Options) (*Transport, error) {
	return open(processContainer, t, address, o)
}

func open(c *vfioContainer, t Tree, address string, o Options) (*Transport, error) {
	f, err := t.Function(address)
	if err != nil {
		return nil, err
	}
	if err := supported(f); err != nil {
		return nil, fmt.Errorf("pci: %s: %w", f.BDF, err)
	}
	a, err := c.open(t, f)
	if err != nil {
		return nil, fmt.Errorf("pci: %s: %w", f.BDF, err)
	}
	tr, err := newTransport(f.BDF, a, o)
	if err != nil {
		return nil, join(err, a.close())
	}
	if !a.group.isolated {
		tr.log.Warn("pci: no IOMMU isolates the device: it can reach all memory", "bdf", f.BDF)
	}
	tr.log.Debug("pci: opened", "bdf", f.BDF, "group", f.Group, "iova", tr.addressing.Mode.String())
	return tr, nil
}

// supported says why a function can't be opened.
func supported(f Function) error {
	if !f.IsVirtioNet() {
		return fmt.Errorf("%w: %04x:%04x is no virtio network device", port.ErrNotSupported, f.Vendor, f.Device)
	}
	bind := "vionet devbind -b vfio-pci " + f.BDF
	switch f.Driver {
	case DriverVFIO:
		return nil
	case "":
		return fmt.Errorf("%w: %s", ErrAccess, bind)
	case DriverUIOGeneric, DriverUIOIntel:
		return fmt.Errorf("%w but to %s, which is not supported: %s", ErrAccess, f.Driver, bind)
	default:
		return fmt.Errorf("%w but to %s: %s", ErrAccess, f.Driver, bind)
	}
}

// newTransport finds the device's structures and resets it. The access stays
// the caller's when it fails, with no window of it left open.
func newTransport(bdf string, a access, o Options) (*Transport, error) {
	t := &Transport{bdf: bdf, log: o.Log, access: a}
	if t.log == nil {
		t.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	config, err := a.config()
	if err != nil {
		return nil, t.fail(err)
	}
	found, err := FindCapabilities(config, a.barSizes())
	if errors.Is(err, ErrNotModern) {
		return nil, t.fail(fmt.Errorf("%w: start it with its modern interface, as disable-modern=off", err))
	}
	if err != nil {
		return nil, t.fail(err)
	}
	if t.regs, err = openModern(a, found); err != nil {
		return nil, t.fail(err)
	}
	if err := t.prepare(); err != nil {
		return nil, join(t.fail(err), t.regs.close())
	}
	return t, nil
}

// prepare resets the device and only then lets it do DMA.
func (t *Transport) prepare() error {
	if err := t.regs.reset(closeTimeout); err != nil {
		return err
	}
	if err := t.access.setCommand(commandMemory|commandBusMaster, 0); err != nil {
		return err
	}
	// A device that does not offer ACCESS_PLATFORM goes around the IOMMU
	// (section 6.1).
	if t.regs.features().Has(virtio.AccessPlatform) {
		t.addressing = t.access.translated()
	} else {
		t.addressing = port.Addressing{Mode: mbuf.IOVAPhysical}
	}
	return nil
}

// fail puts the function's name in front of an error.
func (t *Transport) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pci: %s: %w", t.bdf, err)
}

// use is what every method asks first.
func (t *Transport) use() error {
	if t.closed {
		return t.fail(port.ErrClosed)
	}
	return nil
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
		return t.fail(fmt.Errorf("the device goes around the IOMMU (it does not offer ACCESS_PLATFORM) and takes physical addresses, but the memory has addresses of mode %q: use --iova-mode=pa", mem.Mode()))
	}
	err := t.access.mapDMA(mem.Regions())
	if err != nil && mem.Mode() == mbuf.IOVAPhysical {
		err = fmt.Errorf("%w: the IOMMU refuses physical addresses; it may translate too few bits", err)
	}
	return t.fail(err)
}

// Reset makes the device forget everything and waits until it has, timeout at
// most (virtio 1.2, section 2.4).
func (t *Transport) Reset(timeout time.Duration) error {
	if err := t.use(); err != nil {
		return err
	}
	return t.fail(t.regs.reset(timeout))
}

// Status reads the device status field.
func (t *Transport) Status() (virtio.Status, error) {
	if err := t.use(); err != nil {
		return 0, err
	}
	s, err := t.regs.status()
	return s, t.fail(err)
}

// SetStatus writes the device status field. Status 0 is for Reset to write.
func (t *Transport) SetStatus(s virtio.Status) error {
	if err := t.use(); err != nil {
		return err
	}
	t.regs.setStatus(s)
	return nil
}

// Features reads what the device offers.
func (t *Transport) Features() (virtio.Features, error) {
	if err := t.use(); err != nil {
		return 0, err
	}
	return t.regs.features(), nil
}

// SetFeatures writes what the driver accepts.
func (t *Transport) SetFeatures(accepted virtio.Features) error {
	if err := t.use(); err != nil {
		return err
	}
	t.regs.setFeatures(accepted)
	return nil
}

// ReadConfig fills b from offset on in the device configuration, coherent
// within the call (section 2.5.1). A field of 2, 4 or 8 bytes is read at its
// width.
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
	size, err := t.regs.selectQueue(index)
	return size, t.fail(err)
}

// SetupQueue tells the device where a virtqueue is and enables it. The error
// wraps port.ErrInvalid when the device has no such queue, or not of that
// size. The Kicker must not be used after Close.
func (t *Transport) SetupQueue(q port.QueueSetup) (port.Kicker, error) {
	if err := t.use(); err != nil {
		return nil, err
	}
	k, err := t.regs.setupQueue(q)
	if err != nil {
		return nil, t.fail(err)
	}
	return k, nil
}

// MaxPairs is 1: more queue pairs take the control queue.
func (t *Transport) MaxPairs() int { return 1 }

// EnablePairs fails with port.ErrNotSupported: over PCI the control queue
// says how many queue pairs are in use.
func (t *Transport) EnablePairs(int) error {
	return t.fail(fmt.Errorf("queue pairs without the control queue: %w", port.ErrNotSupported))
}

// Watch never calls changed: the device is told to send no interrupts, and
// nothing else announces a change. Read the configuration to see one.
func (t *Transport) Watch(changed func()) {}

// Close resets the device, switches its DMA off, unmaps the memory and gives
// the function back; it stays bound to vfio-pci. All of that is done even when
// a part of it fails. A second call does nothing.
func (t *Transport) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	err := join(
		t.regs.reset(closeTimeout),
		t.access.setCommand(0, commandBusMaster),
		t.regs.close(),
		t.access.close(),
	)
	t.log.Debug("pci: closed", "bdf", t.bdf)
	return t.fail(err)
}
