package pci

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// vfioDevice reaches a function through VFIO; it is an access. Everything is
// behind the descriptor of its configuration space, which is -1 while closed.
type vfioDevice struct {
	container *vfioContainer
	group     *vfioGroup // nil once closed
	bdf       string
	configSpace
	bars   [numBARs]vfioRegion
	mapped []mbuf.Region // what mapDMA was given
}

// open opens f, resets it, and lets its registers be used; its DMA stays off.
func (c *vfioContainer) open(t Tree, f Function) (*vfioDevice, error) {
	group, err := c.join(t, f)
	if err != nil {
		return nil, err
	}
	d := &vfioDevice{container: c, group: group, bdf: f.BDF, configSpace: configSpace{fd: -1}}
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
	space, err := d.region(vfioConfigIndex)
	if err != nil {
		return err
	}
	d.at, d.size = int64(space.offset), int64(space.size)
	// Not every function can be reset; the virtio reset that follows is what
	// counts.
	if err := calls.resetDevice(d.fd); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("reset the function: %w", err)
	}
	return d.setCommand(commandIO|commandMemory|commandINTxDisable, commandBusMaster)
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

func (d *vfioDevice) isolated() bool { return d.group.isolated }

func (d *vfioDevice) translated() (port.Addressing, error) { return d.container.addressing(), nil }

func (d *vfioDevice) mapDMA(regions []mbuf.Region) error {
	if err := d.container.mapDMA(regions); err != nil {
		return err
	}
	d.mapped = append(d.mapped, regions...)
	return nil
}

func (d *vfioDevice) unmapDMA(regions []mbuf.Region) error {
	d.mapped = slices.DeleteFunc(d.mapped, func(m mbuf.Region) bool {
		return slices.ContainsFunc(regions, func(r mbuf.Region) bool { return r.IOVA == m.IOVA })
	})
	return d.container.unmapDMA(regions)
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
