package pci

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// resourceIO marks an I/O port BAR in the resource attribute; IORESOURCE_IO.
const resourceIO = 0x100

// uioDevice reaches a function that uio_pci_generic or igb_uio holds; it is an
// access. The node /dev/uioN only stands for the interrupt line: registers and
// configuration space are sysfs attributes. Nothing maps memory, so addresses
// are physical.
//
// The registers of a function that is pulled out vanish under the process;
// that can't be made safe with these drivers.
type uioDevice struct {
	configSpace
	tree  Tree
	bdf   string
	group int // IOMMU group, -1 for none
	bars  [numBARs]uioBAR
	node  *os.File // nil while closed
}

// uioBAR is a BAR in a file of its own.
type uioBAR struct {
	size uint64
	io   bool // I/O ports: no mmap
	fd   int  // -1 until it is used
}

// openUIO opens f; its DMA stays off.
func openUIO(t Tree, f Function) (*uioDevice, error) {
	d := &uioDevice{configSpace: configSpace{fd: -1}, tree: t, bdf: f.BDF, group: f.Group}
	for i := range d.bars {
		d.bars[i].fd = -1
	}
	if err := d.start(); err != nil {
		return nil, join(err, d.close())
	}
	return d, nil
}

func (d *uioDevice) start() error {
	fd, err := d.tree.lockConfig(d.bdf)
	if err != nil {
		return err
	}
	d.fd, d.size = fd, cfgSize
	if err := d.readBARs(); err != nil {
		return err
	}
	node, err := d.tree.uioNode(d.bdf)
	if err != nil {
		return err
	}
	// Reads sleep in Go's poller.
	d.node, err = os.OpenFile(node, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return openError(node, errors.Unwrap(err), "vionet devbind -b uio_pci_generic "+d.bdf)
	}
	return d.setCommand(commandIO|commandMemory|commandINTxDisable, commandBusMaster)
}

// lockConfig opens a function's configuration space and keeps other processes
// from doing the same. The UIO node is no good for that: whoever closes it,
// the kernel switches the function's DMA off.
func (t Tree) lockConfig(bdf string) (fd int, err error) {
	path := t.path(sysDevices, bdf, "config")
	if fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return -1, openError(path, err, "vionet devbind --status")
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return -1, fmt.Errorf("%w: a process has opened it", ErrInUse)
		}
		return -1, fmt.Errorf("lock %s: %w", path, err)
	}
	return fd, nil
}

// uioNode finds the node of a function: the one entry of its uio directory
// names it.
func (t Tree) uioNode(bdf string) (string, error) {
	dir := t.path(sysDevices, bdf, "uio")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", openError(dir, err, "vionet devbind -b uio_pci_generic "+bdf)
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%s has %d entries, not one", dir, len(entries))
	}
	return t.path("dev", entries[0].Name()), nil
}

// readBARs reads the resource attribute: first and last address and flags of
// each BAR in a line.
func (d *uioDevice) readBARs() error {
	text, err := d.tree.read(sysDevices, d.bdf, "resource")
	if err != nil {
		return err
	}
	lines := strings.Split(text, "\n")
	for i := range min(numBARs, len(lines)) {
		size, flags, err := parseResource(lines[i])
		if err != nil {
			return fmt.Errorf("resource %d: %w", i, err)
		}
		d.bars[i].size, d.bars[i].io = size, flags&resourceIO != 0
	}
	return nil
}

// parseResource reads a line of the resource attribute; an unused one is all
// zeros.
func parseResource(line string) (size, flags uint64, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return 0, 0, fmt.Errorf("%q is not first, last and flags", line)
	}
	var n [3]uint64
	for i, field := range fields {
		if n[i], err = strconv.ParseUint(field, 0, 64); err != nil {
			return 0, 0, err
		}
	}
	first, last, flags := n[0], n[1], n[2]
	switch {
	case last == 0:
		return 0, flags, nil
	case last < first || last-first >= math.MaxInt64:
		return 0, 0, fmt.Errorf("%#x to %#x is no range", first, last)
	}
	return last - first + 1, flags, nil
}

func (d *uioDevice) barSizes() [numBARs]uint64 {
	var sizes [numBARs]uint64
	for i, bar := range d.bars {
		sizes[i] = bar.size
	}
	return sizes
}

func (d *uioDevice) window(s Structure) (registers, error) {
	bar := &d.bars[s.BAR]
	if bar.fd < 0 {
		path := d.tree.path(sysDevices, d.bdf, "resource"+strconv.Itoa(s.BAR))
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_SYNC, 0)
		if err != nil {
			return nil, openError(path, err, "the kernel shows no such BAR")
		}
		bar.fd = fd
	}
	if bar.io {
		return &fileRegisters{fd: bar.fd, offset: int64(s.Offset), length: int(s.Length)}, nil
	}
	mapped, err := mapRegisters(bar.fd, int64(s.Offset), int(s.Length))
	if err != nil {
		return nil, fmt.Errorf("BAR %d: %w", s.BAR, err)
	}
	return mapped, nil
}

func (d *uioDevice) isolated() bool { return false }

// translated gives physical addresses, which an IOMMU that translates would
// refuse.
func (d *uioDevice) translated() (port.Addressing, error) {
	if d.group >= 0 {
		kind, err := d.tree.read(sysGroups, strconv.Itoa(d.group), "type")
		if err == nil && kind != "identity" {
			return port.Addressing{}, fmt.Errorf("%w through UIO: the function is behind an IOMMU: vionet devbind -b vfio-pci %s", port.ErrNotSupported, d.bdf)
		}
	}
	return port.Addressing{Mode: mbuf.IOVAPhysical}, nil
}

func (d *uioDevice) mapDMA([]mbuf.Region) error { return nil }

func (d *uioDevice) unmapDMA([]mbuf.Region) error { return nil }

func (d *uioDevice) enableVectors(int) (int, error) { return 0, nil }

func (d *uioDevice) route(vector, _ int) error {
	return fmt.Errorf("MSI-X vector %d: %w through UIO", vector, port.ErrNotSupported)
}

func (d *uioDevice) announceRemoval(int) error {
	return fmt.Errorf("announcement of a removal: %w through UIO", port.ErrNotSupported)
}

// close closes everything; the kernel switches the function's DMA off.
func (d *uioDevice) close() error {
	var errs []error
	if d.node != nil {
		if err := d.node.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
		d.node = nil
	}
	for i, bar := range d.bars {
		if bar.fd >= 0 {
			errs = append(errs, unix.Close(bar.fd))
			d.bars[i].fd = -1
		}
	}
	if d.fd >= 0 {
		errs = append(errs, unix.Close(d.fd))
		d.fd = -1
	}
	return join(errs...)
}
