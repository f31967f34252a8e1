// Package pcitest provides a tree of plain files that looks like the PCI part
// of sysfs, and a stand-in for the kernel that changes it as the real one
// does when attributes are written. Programs that bind functions can be
// tested with it.
package pcitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Function describes a PCI function to add to a tree.
type Function struct {
	BDF            string // address, such as 0000:00:04.0
	Vendor, Device uint16
	Class          uint32 // 24 bits; 0 is an Ethernet controller, 0x020000
	Driver         string // driver that it starts with, "" for none
	Group          int    // IOMMU group; 0 for none
	// Interface is the network interface that its kernel driver makes, ""
	// for none; Up says that it is switched on.
	Interface string
	Up        bool
	// Config is the content of its configuration space; nil is 64 zero bytes.
	Config []byte
}

// Kernel is the tree and what acts on it. It belongs to one goroutine.
type Kernel struct {
	// Root is the directory with sys, proc and dev.
	Root string
	// Writes lists what was written, as "path value", the path below Root.
	Writes []string
	// Refuse maps a path below Root to the error that a write to it gets.
	Refuse map[string]error

	tb        testing.TB
	functions map[string]Function
	drivers   map[string]func(Function) bool
}

// New makes an empty tree in a directory of the test's, with the drivers
// virtio-pci and vfio-pci loaded and no IPv4 or IPv6 routes.
func New(tb testing.TB) *Kernel {
	k := &Kernel{
		Root:      tb.TempDir(),
		Refuse:    map[string]error{},
		tb:        tb,
		functions: map[string]Function{},
		drivers:   map[string]func(Function) bool{},
	}
	k.mkdir("sys/bus/pci/devices")
	k.write("sys/bus/pci/drivers_probe", "")
	k.AddDriver("virtio-pci", func(f Function) bool { return f.Vendor == 0x1af4 })
	k.AddDriver("vfio-pci", nil)
	k.SetRoutes("", "")
	return k
}

// AddDriver loads a driver. knows says which functions it drives on its own,
// without an override; nil is none.
func (k *Kernel) AddDriver(name string, knows func(Function) bool) {
	k.drivers[name] = knows
	k.write("sys/bus/pci/drivers/"+name+"/bind", "")
	k.write("sys/bus/pci/drivers/"+name+"/unbind", "")
}

// RemoveDriver unloads a driver that no function has.
func (k *Kernel) RemoveDriver(name string) {
	delete(k.drivers, name)
	k.check(os.RemoveAll(k.path("sys/bus/pci/drivers", name)))
}

// SetRoutes writes the lines of /proc/net/route below its heading, and those
// of /proc/net/ipv6_route.
func (k *Kernel) SetRoutes(ipv4, ipv6 string) {
	k.write("proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"+ipv4)
	k.write("proc/net/ipv6_route", ipv6)
}

// WriteFile writes any other file, at a path below Root.
func (k *Kernel) WriteFile(path, content string) { k.write(path, content) }

// Add adds a function.
func (k *Kernel) Add(f Function) {
	if f.Class == 0 {
		f.Class = 0x020000
	}
	if f.Config == nil {
		f.Config = make([]byte, 64)
	}
	k.functions[f.BDF] = f
	dir := "sys/bus/pci/devices/" + f.BDF
	k.write(dir+"/vendor", fmt.Sprintf("0x%04x\n", f.Vendor))
	k.write(dir+"/device", fmt.Sprintf("0x%04x\n", f.Device))
	k.write(dir+"/class", fmt.Sprintf("0x%06x\n", f.Class))
	k.write(dir+"/irq", "0\n")
	k.write(dir+"/numa_node", "-1\n")
	k.write(dir+"/resource", strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 13))
	k.write(dir+"/driver_override", "(null)\n")
	k.write(dir+"/config", string(f.Config))
	if f.Group > 0 {
		group := "sys/kernel/iommu_groups/" + strconv.Itoa(f.Group)
		k.mkdir(group + "/devices")
		k.link(k.path(group), dir+"/iommu_group")
		k.link(k.path(dir), group+"/devices/"+f.BDF)
	}
	if f.Driver != "" {
		k.attach(f, f.Driver)
	}
}

// DriverOf is the driver that a function has, "" for none.
func (k *Kernel) DriverOf(bdf string) string {
	target, err := os.Readlink(k.path("sys/bus/pci/devices", bdf, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// Override is what a function's driver_override says.
func (k *Kernel) Override(bdf string) string {
	b, err := os.ReadFile(k.path("sys/bus/pci/devices", bdf, "driver_override"))
	k.check(err)
	return strings.TrimSpace(string(b))
}

// Store takes the write of an attribute, for the field of that name in
// pci.Tree.
func (k *Kernel) Store(path, value string) error {
	rel, err := filepath.Rel(k.Root, path)
	if err != nil {
		return err
	}
	k.Writes = append(k.Writes, rel+" "+strings.TrimSpace(value))
	if err := k.Refuse[rel]; err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if err := k.act(rel, strings.TrimSpace(value)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func (k *Kernel) act(rel, value string) error {
	dir, attribute := filepath.Split(rel)
	switch attribute {
	case "driver_override":
		if value == "" {
			value = "(null)"
		}
		k.write(rel, value+"\n")
		return nil
	case "unbind":
		if k.DriverOf(value) == "" {
			return syscall.ENODEV
		}
		k.detach(k.functions[value])
		return nil
	case "drivers_probe":
		f, ok := k.functions[value]
		if !ok {
			return syscall.ENODEV
		}
		k.probe(f)
		return nil
	case "bind":
		f, ok := k.functions[value]
		driver := filepath.Base(dir)
		if !ok || k.DriverOf(value) != "" || !k.matches(f, driver) {
			return syscall.ENODEV
		}
		k.attach(f, driver)
		return nil
	}
	return syscall.EACCES
}

// probe offers a function without a driver to all that know it.
func (k *Kernel) probe(f Function) {
	if k.DriverOf(f.BDF) != "" {
		return
	}
	for driver := range k.drivers {
		if k.matches(f, driver) && k.Refuse["probe "+driver] == nil {
			k.attach(f, driver)
			return
		}
	}
}

func (k *Kernel) matches(f Function, driver string) bool {
	knows, loaded := k.drivers[driver]
	if override := k.Override(f.BDF); override != "(null)" {
		return loaded && override == driver
	}
	return loaded && knows != nil && knows(f)
}

func (k *Kernel) attach(f Function, driver string) {
	dir := "sys/bus/pci/devices/" + f.BDF
	k.link(k.path("sys/bus/pci/drivers", driver), dir+"/driver")
	if f.Interface == "" || k.drivers[driver] == nil {
		return
	}
	net := dir + "/net/" + f.Interface
	if driver == "virtio-pci" {
		net = dir + "/virtio0/net/" + f.Interface
	}
	flags, state := "0x1002", "down"
	if f.Up {
		flags, state = "0x1003", "up"
	}
	k.write(net+"/flags", flags+"\n")
	k.write(net+"/operstate", state+"\n")
}

func (k *Kernel) detach(f Function) {
	dir := k.path("sys/bus/pci/devices", f.BDF)
	for _, name := range []string{"driver", "net", "virtio0"} {
		k.check(os.RemoveAll(filepath.Join(dir, name)))
	}
}

func (k *Kernel) path(names ...string) string {
	return filepath.Join(append([]string{k.Root}, names...)...)
}

func (k *Kernel) mkdir(path string) { k.check(os.MkdirAll(k.path(path), 0o755)) }

func (k *Kernel) link(target, path string) { k.check(os.Symlink(target, k.path(path))) }

func (k *Kernel) write(path, content string) {
	k.mkdir(filepath.Dir(path))
	k.check(os.WriteFile(k.path(path), []byte(content), 0o644))
}

func (k *Kernel) check(err error) {
	if err != nil {
		k.tb.Helper()
		k.tb.Fatalf("pcitest: %v", err)
	}
}
