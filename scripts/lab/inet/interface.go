package inet

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Configure gives an interface an IPv4 address and brings it up.
func Configure(ifname string, prefix netip.Prefix) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("configure %s: %w", ifname, err)
	}
	defer unix.Close(fd)
	for _, step := range []struct {
		request uint
		fill    func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(prefix.Addr().AsSlice()) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.CIDRMask(prefix.Bits(), 32)) }},
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		request, err := unix.NewIfreq(ifname)
		if err == nil {
			err = step.fill(request)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, step.request, request)
		}
		if err != nil {
			return fmt.Errorf("configure %s with %v: %w", ifname, prefix, err)
		}
	}
	return nil
}

// Neighbour gives the MAC address that ARP found for a neighbour.
func Neighbour(addr netip.Addr) (net.HardwareAddr, error) {
	table, err := os.ReadFile("/proc/thread-self/net/arp")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) >= 4 && f[0] == addr.String() {
			return net.ParseMAC(f[3])
		}
	}
	return nil, fmt.Errorf("no neighbour %v in the table of ARP", addr)
}
