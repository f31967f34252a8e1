package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// vfioContainer is an IOMMU address space with the groups in it. There is one
// in a process, so that memory that several functions use is mapped, and
// counted against the limit of locked memory, once. It is open while it has
// groups.
type vfioContainer struct {
	calls vfioCalls

	mu     sync.Mutex
	fd     int // -1 while closed
	kind   int // vfioType1v2, vfioType1 or vfioNoIOMMU; 0 before the first group
	groups map[string]*vfioGroup
	maps   map[uint64]*dmaMapping // by device address
}

// vfioGroup is an open IOMMU group.
type vfioGroup struct {
	node     string // name below /dev/vfio: "3" or "noiommu-3"
	fd       int
	isolated bool            // an IOMMU keeps its functions to the memory mapped
	users    map[string]bool // functions of the group that are open
}

// dmaMapping is memory that the container's functions can reach.
type dmaMapping struct {
	address, size uint64 // in this process
	users         int
}

// processContainer is the container of this process.
var processContainer = newVFIOContainer(kernelVFIO{})

func newVFIOContainer(calls vfioCalls) *vfioContainer {
	return &vfioContainer{calls: calls, fd: -1, groups: map[string]*vfioGroup{}, maps: map[uint64]*dmaMapping{}}
}

// join opens f's group in the container, or adds f to the group that is open.
func (c *vfioContainer) join(t Tree, f Function) (*vfioGroup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, kind, err := t.groupNode(f)
	if err != nil {
		return nil, err
	}
	if g := c.groups[node]; g != nil {
		if g.users[f.BDF] {
			return nil, errors.New("it is already open in this process")
		}
		g.users[f.BDF] = true
		return g, nil
	}
	if len(c.groups) > 0 && (c.kind == vfioNoIOMMU) != (kind == vfioNoIOMMU) {
		return nil, errors.New("functions with an IOMMU and without one can't be used together: open them in two processes")
	}
	if err := c.openContainer(t); err != nil {
		return nil, err
	}
	g, err := c.openGroup(t, f, node, kind)
	if err != nil {
		c.closeUnused()
		return nil, err
	}
	c.groups[node], g.users[f.BDF] = g, true
	return g, nil
}

// leave undoes a join.
func (c *vfioContainer) leave(g *vfioGroup, bdf string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(g.users, bdf)
	if len(g.users) > 0 {
		return nil
	}
	delete(c.groups, g.node)
	err := unix.Close(g.fd)
	g.fd = -1
	return join(err, c.closeUnused())
}

// groupNode finds the device node of f's group and the kind of IOMMU that it
// takes.
func (t Tree) groupNode(f Function) (node string, kind int, err error) {
	if f.Group < 0 {
		if advice, err := t.noIOMMU(); err != nil {
			return "", 0, fmt.Errorf("%w: %s", err, advice)
		}
		return "", 0, fmt.Errorf("%w: bind it again with vionet devbind -b vfio-pci %s", ErrNoIOMMU, f.BDF)
	}
	node = strconv.Itoa(f.Group)
	unsafe := noIOMMUPrefix + node
	switch {
	case t.exists(devVFIO, node):
		return node, vfioType1, nil
	case t.exists(devVFIO, unsafe):
		return unsafe, vfioNoIOMMU, nil
	default:
		return "", 0, fmt.Errorf("IOMMU group %d has neither %s nor %s: %w: modprobe vfio-pci, then vionet devbind -b vfio-pci %s",
			f.Group, t.path(devVFIO, node), t.path(devVFIO, unsafe), fs.ErrNotExist, f.BDF)
	}
}

// noIOMMUPrefix begins the name of a group's node when there is no IOMMU.
const noIOMMUPrefix = "noiommu-"

func (c *vfioContainer) openContainer(t Tree) error {
	if c.fd >= 0 {
		return nil
	}
	path := t.path(devVFIO, "vfio")
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return openError(path, err, "modprobe vfio-pci")
	}
	version, err := c.calls.apiVersion(fd)
	if err == nil && version != vfioAPIVersion {
		err = fmt.Errorf("VFIO has version %d, not %d", version, vfioAPIVersion)
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("%s: %w", path, err)
	}
	c.fd = fd
	return nil
}

// closeUnused closes the container when no group is left. All mappings are
// gone with the last group.
func (c *vfioContainer) closeUnused() error {
	if len(c.groups) > 0 || c.fd < 0 {
		return nil
	}
	err := unix.Close(c.fd)
	c.fd, c.kind = -1, 0
	clear(c.maps)
	return err
}

// openGroup opens a group's node and puts it into the container.
func (c *vfioContainer) openGroup(t Tree, f Function, node string, kind int) (g *vfioGroup, err error) {
	path := t.path(devVFIO, node)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return nil, fmt.Errorf("IOMMU group %d is busy: another process uses a function of it", f.Group)
	case errors.Is(err, fs.ErrPermission) && kind == vfioNoIOMMU:
		return nil, fmt.Errorf("open %s: %w: without an IOMMU it takes CAP_SYS_RAWIO: run as root", path, err)
	case err != nil:
		return nil, openError(path, err, "vionet devbind -b vfio-pci "+f.BDF)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	flags, err := c.calls.groupFlags(fd)
	if err != nil {
		return nil, fmt.Errorf("%s: status: %w", path, err)
	}
	if flags&vfioGroupViable == 0 {
		holders := t.groupHolders(f, nil)
		return nil, fmt.Errorf("%w with kernel drivers: %s: bind them to vfio-pci too", ErrGroupShared, strings.Join(holders, ", "))
	}
	if err := c.calls.setContainer(fd, c.fd); err != nil {
		return nil, fmt.Errorf("put IOMMU group %d into the container: %w", f.Group, err)
	}
	if c.kind == 0 {
		if err := c.chooseIOMMU(kind); err != nil {
			return nil, err
		}
	}
	return &vfioGroup{node: node, fd: fd, isolated: kind != vfioNoIOMMU, users: map[string]bool{}}, nil
}

// chooseIOMMU sets the kind of IOMMU, once the first group is in: type 1 in
// its second version where there is one.
func (c *vfioContainer) chooseIOMMU(kind int) error {
	if kind == vfioType1 && c.calls.hasExtension(c.fd, vfioType1v2) {
		kind = vfioType1v2
	}
	err := c.calls.setIOMMU(c.fd, kind)
	switch {
	case errors.Is(err, unix.EPERM) && kind == vfioNoIOMMU:
		return fmt.Errorf("no-IOMMU mode: %w: it takes CAP_SYS_RAWIO: run as root", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("set IOMMU: %w: the IOMMU does not remap interrupts; write Y to /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts", err)
	case err != nil:
		return fmt.Errorf("set IOMMU of type %d: %w: modprobe vfio_iommu_type1", kind, err)
	}
	c.kind = kind
	return nil
}

// addressing gives the addresses that the IOMMU can translate.
func (c *vfioContainer) addressing() port.Addressing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kind == vfioNoIOMMU {
		return port.Addressing{Mode: mbuf.IOVAPhysical}
	}
	info, err := c.calls.iommuInfo(c.fd)
	if err != nil {
		return port.Addressing{Mode: mbuf.IOVARanges, Ranges: fallbackRanges}
	}
	return port.Addressing{Mode: mbuf.IOVARanges, Ranges: iovaRanges(info)}
}

// mapDMA maps the regions, those that are mapped already once more.
func (c *vfioContainer) mapDMA(regions []mbuf.Region) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range regions {
		if err := c.mapRegion(r); err != nil {
			return join(err, c.unmapRegions(regions[:i]))
		}
	}
	return nil
}

func (c *vfioContainer) mapRegion(r mbuf.Region) error {
	if c.kind == vfioNoIOMMU {
		return nil // nothing translates, nothing to map
	}
	address, size := addressOf(r.Bytes), uint64(len(r.Bytes))
	if m := c.maps[r.IOVA]; m != nil && m.address == address && m.size == size {
		m.users++
		return nil
	}
	if err := c.calls.mapDMA(c.fd, r.Bytes, r.IOVA); err != nil {
		return mapError(r, err)
	}
	c.maps[r.IOVA] = &dmaMapping{address: address, size: size, users: 1}
	return nil
}

// unmapDMA undoes one mapDMA.
func (c *vfioContainer) unmapDMA(regions []mbuf.Region) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unmapRegions(regions)
}

func (c *vfioContainer) unmapRegions(regions []mbuf.Region) error {
	var errs []error
	for _, r := range regions {
		m := c.maps[r.IOVA]
		if m == nil {
			continue
		}
		if m.users--; m.users > 0 {
			continue
		}
		delete(c.maps, r.IOVA)
		if err := c.calls.unmapDMA(c.fd, r.IOVA, m.size); err != nil {
			errs = append(errs, fmt.Errorf("unmap %d bytes at device address %#x: %w", m.size, r.IOVA, err))
		}
	}
	return join(errs...)
}

func mapError(r mbuf.Region, err error) error {
	err = fmt.Errorf("map %d bytes at device address %#x: %w", len(r.Bytes), r.IOVA, err)
	switch {
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: too little memory may be locked: raise the limit with ulimit -l, or lower -m", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: too many pieces of memory: use hugepages", err)
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%w: other memory has that address: all functions of a process must share one memory", err)
	default:
		return err
	}
}

func openError(path string, err error, missing string) error {
	err = fmt.Errorf("open %s: %w", path, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", err, missing)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: run as root, or give yourself the node", err)
	default:
		return err
	}
}
