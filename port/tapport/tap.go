package tapport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"vionet/port"
)

// device makes taps.
const device = "/dev/net/tun"

// tap is one queue of the kernel's interface: a file from which frames are read
// that the kernel sends, and to which frames are written that it receives. The
// runtime's poller knows the file; bursts use the bare descriptor.
type tap struct {
	fd   int
	file *os.File
}

// openTap attaches a queue to the interface of that name and gives the name
// that it has: %d in it becomes a number that is free. The first queue makes
// the interface.
func openTap(name string, first bool) (*tap, string, error) {
	ifreq, err := unix.NewIfreq(name)
	if err != nil {
		return nil, "", fmt.Errorf("interface %s: %w: a name has at most %d characters", name, port.ErrInvalid, unix.IFNAMSIZ-1)
	}
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", openError(&os.PathError{Op: "open", Path: device, Err: err})
	}
	flags := unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_MULTI_QUEUE
	if first {
		flags |= unix.IFF_TUN_EXCL // never a queue of somebody else's interface
	}
	ifreq.SetUint16(uint16(flags))
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifreq); err != nil {
		unix.Close(fd)
		return nil, "", attachError(name, err)
	}
	// Not before: the poller takes a queue without an interface for broken.
	return &tap{fd: fd, file: os.NewFile(uintptr(fd), device)}, ifreq.Name(), nil
}

func openError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: load the tun module (modprobe tun) or give the container the device", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: a tap takes root or CAP_NET_ADMIN", err)
	default:
		return err
	}
}

func attachError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("make the interface %s: %w: a tap takes root or CAP_NET_ADMIN", name, err)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("make the interface %s: %w: it exists already: choose another iface= or remove it (ip link del %s)", name, err, name)
	default:
		return fmt.Errorf("make the interface %s: %w", name, err)
	}
}

func (t *tap) close() error { return t.file.Close() }

// ready reports whether a read would not wait, be it because of an error.
func (t *tap) ready() bool {
	polled := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(polled, 0)
	return n > 0
}

// checkName refuses what the kernel would refuse, with the reason.
func checkName(name string) error {
	switch {
	case name == "" || len(name) >= unix.IFNAMSIZ:
		return fmt.Errorf("iface=%s: %w: a name has 1 to %d characters", name, port.ErrInvalid, unix.IFNAMSIZ-1)
	case name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n"):
		return fmt.Errorf("iface=%s: %w: a name has no slash, colon or space", name, port.ErrInvalid)
	}
	return nil
}
