package pci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// vfioDevice reaches a function through VFIO; it is an access.
type vfioDevice struct {
	container *vfioContainer
	group     *vfioGroup // nil once closed
	bdf       string
	fd        int // -1 while closed
	bars      [numBARs]vfioRegion
	space     vfioRegion    // the configuration space
	mapped    []mbuf.Region // what mapDMA was given
}

// open opens f, resets it, and lets its registers be used; its DMA stays off.
func (c *vfioContainer) open(t Tree, f Function) (*vfioDevice, error) {
	group, err := c.join(t, f)
	if err != nil {
		return nil, err
	}
	d := &vfioDevice{container: c, group: group, bdf: f.BDF, fd: -1}
	if err := d.start(); err != nil {
		return nil, join(err, d.close())
	}
	return d, nil
}

func (d *vfioDevice) start() error {
	calls := d.container.calls
	fd, err := calls.deviceFD(d.group.fd, d.bdf)
	if err != nil {
		return fmt.Errorf("open the function in its IOMMU group: %w: is it bound to vfio-pci and used by nobody?", err)
	}
	d.fd = fd
	for i := range d.bars {
		if d.bars[i], err = d.region(i); err != nil {
			return err
		}
	}
	if d.space, err = d.region(vfioConfigIndex); err != nil {
		return err
	}
	// Not every function can be reset; the virtio reset that follows is what
	// counts.
	if err := calls.resetDevice(d.fd); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("reset the function: %w", err)
	}
	return d.setCommand(commandMemory, commandBusMaster)
}

func (d *vfioDevice) region(index int) (vfioRegion, error) {
	info, err := d.container.calls.regionInfo(d.fd, index)
	if errors.Is(err, unix.EINVAL) {
		return vfioRegion{}, nil // there is none
	}
	if err != nil {
		return vfioRegion{}, fmt.Errorf("region %d: %w", index, err)
	}
	r := parseRegion(info)
	if r.size > math.MaxInt64 || r.offset > math.MaxInt64-r.size {
		return vfioRegion{}, fmt.Errorf("region %d: %#x bytes at %#x of the file are out of range", index, r.size, r.offset)
	}
	return r, nil
}

func (d *vfioDevice) config() ([]byte, error) {
	b := make([]byte, min(d.space.size, 256))
	n, err := unix.Pread(d.fd, b, int64(d.space.offset))
	if err != nil {
		return nil, fmt.Errorf("read the configuration space: %w", err)
	}
	return b[:n], nil
}

func (d *vfioDevice) barSizes() [numBARs]uint64 {
	var sizes [numBARs]uint64
	for i, r := range d.bars {
		sizes[i] = r.size
	}
	return sizes
}

func (d *vfioDevice) window(s Structure) (registers, error) {
	r := d.bars[s.BAR]
	at := int64(r.offset) + int64(s.Offset)
	if !r.canMap(uint64(s.Offset), uint64(s.Length)) {
		return &fileRegisters{fd: d.fd, offset: at, length: int(s.Length)}, nil
	}
	mapped, err := mapRegisters(d.fd, at, int(s.Length))
	if err != nil {
		return nil, fmt.Errorf("BAR %d: %w", s.BAR, err)
	}
	return mapped, nil
}

func (d *vfioDevice) setCommand(set, clear uint16) error {
	var b [2]byte
	at := int64(d.space.offset) + cfgCommand
	if n, err := unix.Pread(d.fd, b[:], at); err != nil || n != len(b) {
		return fmt.Errorf("read the PCI command register: %w", shortIO(err))
	}
	binary.LittleEndian.PutUint16(b[:], binary.LittleEndian.Uint16(b[:])&^clear|set)
	if n, err := unix.Pwrite(d.fd, b[:], at); err != nil || n != len(b) {
		return fmt.Errorf("write the PCI command register: %w", shortIO(err))
	}
	return nil
}

// shortIO is the reason why a read or write did not move all bytes.
func shortIO(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *vfioDevice) translated() port.Addressing { return d.container.addressing() }

func (d *vfioDevice) mapDMA(regions []mbuf.Region) error {
	if err := d.container.mapDMA(regions); err != nil {
		return err
	}
	d.mapped = append(d.mapped, regions...)
	return nil
}

// close unmaps the memory and closes the device and, when no other function
// uses it, the group. The kernel resets the function then.
func (d *vfioDevice) close() error {
	if d.group == nil {
		return nil
	}
	errs := []error{d.container.unmapDMA(d.mapped)}
	if d.fd >= 0 {
		errs = append(errs, unix.Close(d.fd))
	}
	errs = append(errs, d.container.leave(d.group, d.bdf))
	d.mapped, d.fd, d.group = nil, -1, nil
	return join(errs...)
}
