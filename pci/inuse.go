package pci

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// InUse says why the kernel needs f's network interfaces, such as "eth0
// carries the default route", or gives "" when it does not.
func (t Tree) InUse(f Function) string {
	routes := t.defaultRoutes()
	for _, name := range f.Interfaces {
		if routes[name] {
			return name + " carries the default route"
		}
	}
	for _, dir := range t.interfaceDirs(f.BDF) {
		if interfaceUp(dir) {
			return filepath.Base(dir) + " is up"
		}
	}
	return ""
}

// interfaceUp reports whether the interface with that sysfs directory was
// switched on, with or without a carrier.
func interfaceUp(dir string) bool {
	const iffUp = 1
	if b, err := os.ReadFile(filepath.Join(dir, "flags")); err == nil {
		flags, err := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 32)
		if err == nil && flags&iffUp != 0 {
			return true
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "operstate"))
	return err == nil && strings.TrimSpace(string(b)) == "up"
}

// defaultRoutes gives the interfaces that carry an IPv4 or IPv6 default route.
func (t Tree) defaultRoutes() map[string]bool {
	names := map[string]bool{}
	if table, err := t.read("proc/net/route"); err == nil {
		for line := range strings.Lines(table) {
			if name, ok := defaultRoute4(line); ok {
				names[name] = true
			}
		}
	}
	if table, err := t.read("proc/net/ipv6_route"); err == nil {
		for line := range strings.Lines(table) {
			if name, ok := defaultRoute6(line); ok {
				names[name] = true
			}
		}
	}
	return names
}

// routeReject marks a route that only refuses traffic; RTF_REJECT.
const routeReject = 0x200

// defaultRoute4 reads a line of /proc/net/route: interface, destination,
// gateway, flags, three counters, mask.
func defaultRoute4(line string) (name string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
		return "", false
	}
	return f[0], usableRoute(f[3])
}

// defaultRoute6 reads a line of /proc/net/ipv6_route: destination and its
// prefix length, source and its, next hop, three counters, flags, interface.
func defaultRoute6(line string) (name string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || strings.Trim(f[0], "0") != "" || f[1] != "00" || f[9] == "lo" {
		return "", false
	}
	return f[9], usableRoute(f[8])
}

func usableRoute(flags string) bool {
	n, err := strconv.ParseUint(flags, 16, 32)
	return err == nil && n&routeReject == 0
}
