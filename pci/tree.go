package pci

import (
	"os"
	"path/filepath"
	"strings"
)

// Tree says where the files of the kernel are. The zero value is the real
// system.
type Tree struct {
	// Root is the directory that holds sys, proc and dev; "" is "/".
	Root string
	// Store writes value to the attribute file at path, below Root. It stands
	// in for a kernel on a tree made of plain files; nil writes the file.
	Store func(path, value string) error
}

// Directories of a tree.
const (
	sysDevices = "sys/bus/pci/devices"
	sysDrivers = "sys/bus/pci/drivers"
	sysGroups  = "sys/kernel/iommu_groups"
	devVFIO    = "dev/vfio"
)

// path joins the names below the tree's root.
func (t Tree) path(names ...string) string {
	root := t.Root
	if root == "" {
		root = "/"
	}
	return filepath.Join(append([]string{root}, names...)...)
}

// read gives the content of an attribute without the final newline.
func (t Tree) read(names ...string) (string, error) {
	b, err := os.ReadFile(t.path(names...))
	return strings.TrimSpace(string(b)), err
}

// exists reports whether the file or directory is there.
func (t Tree) exists(names ...string) bool {
	_, err := os.Stat(t.path(names...))
	return err == nil
}

// HasDriver reports whether a kernel driver for PCI functions is loaded.
func (t Tree) HasDriver(name string) bool { return name != "" && t.exists(sysDrivers, name) }

// linkBase is the last element of what a symbolic link points to, or "" when
// there is no such link.
func (t Tree) linkBase(names ...string) string {
	target, err := os.Readlink(t.path(names...))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// store writes an attribute. The file must exist: the kernel makes them.
func (t Tree) store(value string, names ...string) error {
	path := t.path(names...)
	if t.Store != nil {
		return t.Store(path, value)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
