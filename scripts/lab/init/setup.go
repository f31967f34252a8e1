package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/scripts/lab/job"
)

// serial is a serial line by its number; that of the kernel command line is the first.
func serial(line int) string { return fmt.Sprintf("/dev/ttyS%d", line) }

// What a virtio network function looks like in sysfs.
const (
	virtioVendor  = "0x1af4"
	ethernetClass = "0x020000"
)

// moduleInitCompressedFile tells finit_module to unpack the file itself
// (MODULE_INIT_COMPRESSED_FILE, Linux 5.17).
const moduleInitCompressedFile = 4

// mountAll mounts what a program expects of a Linux system. The order counts:
// devtmpfs covers /dev before hugetlbfs goes below it.
func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
		{"tmpfs", "/tmp"},
		{"hugetlbfs", "/dev/hugepages"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	return nil
}

// loadModule gives one file to the kernel; a module that is there already is
// as good.
func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") {
		flags = moduleInitCompressedFile
	}
	err = unix.FinitModule(int(f.Fd()), "", flags)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

// bindAll gives every virtio network function to the driver.
func bindAll(driver string) error {
	devices, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return err
	}
	for _, dir := range devices {
		if attribute(dir, "vendor") != virtioVendor || attribute(dir, "class") != ethernetClass {
			continue
		}
		if err := bind(dir, driver); err != nil {
			return err
		}
	}
	return nil
}

// bind takes the function from the driver that holds it, if any, and gives it
// to the new one.
func bind(dir, driver string) error {
	bdf := filepath.Base(dir)
	if _, err := os.Stat(filepath.Join(dir, "driver")); err == nil {
		if err := os.WriteFile(filepath.Join(dir, "driver", "unbind"), []byte(bdf), 0); err != nil {
			return fmt.Errorf("unbind %s: %w", bdf, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "driver_override"), []byte(driver), 0); err != nil {
		return fmt.Errorf("bind %s: %w", bdf, err)
	}
	if err := os.WriteFile("/sys/bus/pci/drivers_probe", []byte(bdf), 0); err != nil {
		return fmt.Errorf("bind %s to %s: %w", bdf, driver, err)
	}
	if holder, err := os.Readlink(filepath.Join(dir, "driver")); err != nil || filepath.Base(holder) != driver {
		return fmt.Errorf("bind %s: %s did not take it; vfio-pci needs an IOMMU", bdf, driver)
	}
	return nil
}

// attribute reads one attribute of a function, "" when it cannot.
func attribute(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text))
}

// openConsole opens a serial line as a program's terminal: with its usual
// line editing and signals, but without echo unless the job wants it, so that
// a test reads answers and not its own words.
func openConsole(j job.Job, line int) (*os.File, error) {
	tty, err := os.OpenFile(serial(line), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	fd := int(tty.Fd())
	state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err == nil {
		if !j.Echo {
			state.Lflag &^= unix.ECHO
		}
		err = unix.IoctlSetTermios(fd, unix.TCSETS, state)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: j.Rows, Col: j.Cols})
	}
	if err != nil {
		tty.Close()
		return nil, fmt.Errorf("set up %s: %w", serial(line), err)
	}
	return tty, nil
}
