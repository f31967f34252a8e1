package pci

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// ErrAccess is wrapped when a function has a kernel driver through which it
// can't be opened.
var ErrAccess = errors.New("not bound to vfio-pci, uio_pci_generic or igb_uio")

// Options are what Open may be told.
type Options struct {
	Log *slog.Logger // nil discards
}

// Open opens the virtio network function at an address, which must be bound
// to vfio-pci, uio_pci_generic or igb_uio, and resets it. A device that has
// modern registers is driven through these, any other through the legacy
// ones. The caller closes the transport, also before the program ends by a
// signal or a panic; a function whose process dies all the same is reset, or
// at least kept from DMA, by the kernel.
//
// The error says what to do; it wraps ErrNoFunction, ErrAccess, ErrInUse,
// ErrNoIOMMU, ErrGroupShared, ErrNotModern or ErrCapability where one of these
// is the reason.
func Open(t Tree, address string, o Options) (*Transport, error) {
	return open(processContainer, t, address, o)
}

func open(c *vfioContainer, t Tree, address string, o Options) (*Transport, error) {
	f, err := t.Function(address)
	if err != nil {
		return nil, err
	}
	a, err := openAccess(c, t, f)
	if err != nil {
		return nil, fmt.Errorf("pci: %s: %w", f.BDF, err)
	}
	tr, err := newTransport(f.BDF, a, o)
	if err != nil {
		return nil, join(err, a.close())
	}
	if !a.isolated() {
		tr.log.Warn("pci: no IOMMU isolates the device: its DMA can reach all memory", "bdf", f.BDF, "driver", f.Driver)
	}
	tr.log.Debug("pci: opened", "bdf", f.BDF, "driver", f.Driver, "registers", tr.regs.name(), "iova", tr.addressing.Mode.String())
	return tr, nil
}

// openAccess opens a function the way its kernel driver allows.
func openAccess(c *vfioContainer, t Tree, f Function) (access, error) {
	if !f.IsVirtioNet() {
		return nil, fmt.Errorf("%w: %04x:%04x is no virtio network device", port.ErrNotSupported, f.Vendor, f.Device)
	}
	bind := "vionet devbind -b vfio-pci " + f.BDF
	switch f.Driver {
	case DriverVFIO:
		return asAccess(c.open(t, f))
	case DriverUIOGeneric, DriverUIOIntel:
		return asAccess(openUIO(t, f))
	case "":
		return nil, fmt.Errorf("%w: %s", ErrAccess, bind)
	default:
		return nil, fmt.Errorf("%w but to %s: %s", ErrAccess, f.Driver, bind)
	}
}

// asAccess keeps a nil pointer from becoming an access that is not nil.
func asAccess[A access](a A, err error) (access, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

// newTransport finds the device's registers and resets it. The access stays
// the caller's when it fails, with no window of it left open.
func newTransport(bdf string, a access, o Options) (*Transport, error) {
	t := &Transport{bdf: bdf, log: o.Log, access: a}
	if t.log == nil {
		t.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	var err error
	if t.regs, err = openLayout(a); err != nil {
		return nil, t.fail(err)
	}
	if err := t.prepare(); err != nil {
		return nil, join(t.fail(err), t.regs.close())
	}
	return t, nil
}

// openLayout opens a device's modern registers where it has them. A
// transitional device has both kinds.
func openLayout(a access) (layout, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	found, err := FindCapabilities(config, a.barSizes())
	switch {
	case errors.Is(err, ErrNotModern):
		return asLayout(openLegacy(a, config))
	case err != nil:
		return nil, err
	default:
		return asLayout(openModern(a, found))
	}
}

// asLayout is asAccess for layouts.
func asLayout[L layout](l L, err error) (layout, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// prepare resets the device and only then lets it do DMA.
func (t *Transport) prepare() error {
	if err := t.regs.reset(openTimeout); err != nil {
		return err
	}
	if err := t.access.setCommand(commandIO|commandMemory|commandBusMaster, 0); err != nil {
		return err
	}
	t.addressing = port.Addressing{Mode: mbuf.IOVAPhysical}
	// A device that does not offer ACCESS_PLATFORM, as no legacy one can, goes
	// around the IOMMU (section 6.1).
	if t.regs.features().Has(virtio.AccessPlatform) {
		var err error
		t.addressing, err = t.access.translated()
		return err
	}
	return nil
}
