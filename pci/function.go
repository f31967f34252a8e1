package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	upci "github.com/u-root/u-root/pkg/pci"
)

// Vendor and device numbers of virtio network functions (virtio 1.2, sections
// 4.1.2 and 5.1.1).
const (
	VendorVirtio    = 0x1af4
	DeviceNetLegacy = 0x1000 // transitional or legacy
	DeviceNetModern = 0x1041
)

// Kernel drivers that matter here.
const (
	DriverVirtio     = "virtio-pci"
	DriverVFIO       = "vfio-pci"
	DriverUIOGeneric = "uio_pci_generic"
	DriverUIOIntel   = "igb_uio"
)

// classNetwork is the base class of network controllers.
const classNetwork = 0x02

// ErrNoFunction is wrapped when there is no function at an address.
var ErrNoFunction = errors.New("no such PCI function")

// Function is a PCI function as sysfs shows it.
type Function struct {
	BDF            string // domain:bus:device.function, "0000:00:01.0"
	Vendor, Device uint16
	Class          uint32 // class, subclass and programming interface, 24 bits
	VendorName     string // from the PCI id list, or the number in hex
	DeviceName     string
	Driver         string   // kernel driver in use, "" for none
	Group          int      // IOMMU group, -1 for none
	Interfaces     []string // kernel network interfaces, sorted
	NUMANode       int      // -1 when the kernel knows none
}

// IsNetwork reports whether the function is a network controller.
func (f Function) IsNetwork() bool { return f.Class>>16 == classNetwork }

// IsVirtio reports whether the function is a virtio device of any type.
func (f Function) IsVirtio() bool {
	return f.Vendor == VendorVirtio && f.Device >= 0x1000 && f.Device <= 0x107f
}

// IsVirtioNet reports whether the function is a virtio network device.
func (f Function) IsVirtioNet() bool {
	return f.Vendor == VendorVirtio && f.IsNetwork() &&
		(f.Device == DeviceNetLegacy || f.Device == DeviceNetModern)
}

var bdfPattern = regexp.MustCompile(`^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])$`)

// ParseBDF reads the address of a function, with or without the domain, and
// gives it the way sysfs writes it: "00:1.0" becomes "0000:00:01.0".
func ParseBDF(s string) (string, error) {
	m := bdfPattern.FindStringSubmatch(s)
	if m == nil {
		return "", fmt.Errorf("pci: %q is not a PCI address: it must look like 0000:00:01.0 or 00:01.0", s)
	}
	var n [4]uint64
	for i, digits := range m[1:] {
		if digits != "" {
			// The pattern leaves only digits that fit.
			n[i], _ = strconv.ParseUint(digits, 16, 32)
		}
	}
	if n[2] > 31 {
		return "", fmt.Errorf("pci: %q is not a PCI address: a bus has devices 00 to 1f", s)
	}
	return fmt.Sprintf("%04x:%02x:%02x.%d", n[0], n[1], n[2], n[3]), nil
}

// Functions lists every PCI function of the tree, sorted by address. A
// function that goes away while it is looked at is left out.
func (t Tree) Functions() ([]Function, error) {
	entries, err := os.ReadDir(t.path(sysDevices))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a machine without PCI
	}
	if err != nil {
		return nil, fmt.Errorf("pci: scan: %w", err)
	}
	var all []Function
	for _, e := range entries {
		if bdf, err := ParseBDF(e.Name()); err != nil || bdf != e.Name() {
			continue
		}
		f, err := t.Function(e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNoFunction):
		case err != nil:
			return nil, err
		default:
			all = append(all, f)
		}
	}
	return all, nil
}

// Function reads one function. The error wraps ErrNoFunction when there is
// none at that address.
func (t Tree) Function(address string) (Function, error) {
	bdf, err := ParseBDF(address)
	if err != nil {
		return Function{}, err
	}
	dir := t.path(sysDevices, bdf)
	if !t.exists(sysDevices, bdf) {
		return Function{}, fmt.Errorf("pci: %s: %w: see vionet devbind --status", bdf, ErrNoFunction)
	}
	p, err := upci.OnePCI(dir)
	if err != nil {
		return Function{}, fmt.Errorf("pci: %s: read sysfs: %w", bdf, err)
	}
	p.SetVendorDeviceName(upci.IDs)
	return Function{
		BDF:        bdf,
		Vendor:     p.Vendor,
		Device:     p.Device,
		Class:      p.Class,
		VendorName: p.VendorName,
		DeviceName: p.DeviceName,
		Driver:     t.driverOf(bdf),
		Group:      t.groupOf(bdf),
		Interfaces: t.interfacesOf(bdf),
		NUMANode:   t.numaNodeOf(bdf),
	}, nil
}

func (t Tree) driverOf(bdf string) string { return t.linkBase(sysDevices, bdf, "driver") }

func (t Tree) groupOf(bdf string) int {
	n, err := strconv.Atoi(t.linkBase(sysDevices, bdf, "iommu_group"))
	if err != nil {
		return -1
	}
	return n
}

// interfacesOf gives the names of the network interfaces of a function.
func (t Tree) interfacesOf(bdf string) []string {
	var names []string
	for _, dir := range t.interfaceDirs(bdf) {
		names = append(names, filepath.Base(dir))
	}
	slices.Sort(names)
	return names
}

// interfaceDirs finds the directories of a function's network interfaces:
// directly below it, or below the virtio device that virtio-pci makes.
func (t Tree) interfaceDirs(bdf string) []string {
	var dirs []string
	for _, pattern := range []string{"net/*", "virtio*/net/*"} {
		// The pattern is a constant and well formed.
		found, _ := filepath.Glob(t.path(sysDevices, bdf, pattern))
		dirs = append(dirs, found...)
	}
	return dirs
}

func (t Tree) numaNodeOf(bdf string) int {
	s, err := t.read(sysDevices, bdf, "numa_node")
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// groupMembers lists the other functions of an IOMMU group.
func (t Tree) groupMembers(group int, but string) []string {
	entries, err := os.ReadDir(t.path(sysGroups, strconv.Itoa(group), "devices"))
	if err != nil {
		return nil
	}
	var others []string
	for _, e := range entries {
		if name := e.Name(); name != but && strings.Contains(name, ":") {
			others = append(others, name)
		}
	}
	return others
}
