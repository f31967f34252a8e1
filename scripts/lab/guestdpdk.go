package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
)

// guestTestpmd is the place of dpdk-testpmd in a guest that has DPDKFiles.
const guestTestpmd = "/bin/dpdk-testpmd"

// guestDrivers are the drivers that testpmd needs on a virtio-net function, each
// after those that it needs itself.
var guestDrivers = []string{"librte_bus_pci.so", "librte_mempool_ring.so", "librte_net_virtio.so"}

// GuestDPDK is this host's dpdk-testpmd for a guest: the beginning of its command line,
// for Config.Program or Config.Beside, and for Config.Files it and all that it loads,
// about 20 MB.
func GuestDPDK(ctx context.Context) (argv []string, files map[string]string, err error) {
	program, err := exec.LookPath("dpdk-testpmd")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: install dpdk-dev", err)
	}
	argv, files = []string{guestTestpmd}, map[string]string{guestTestpmd: program}
	programs := []string{program}
	for _, name := range guestDrivers {
		found, _ := filepath.Glob(filepath.Join("/usr/lib/*/dpdk/pmds-*", name+".[0-9]*"))
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("no %s of DPDK: install dpdk-dev", name)
		}
		driver := found[0] // the shortest name, which others ask for
		files[libraryPlace(driver)] = driver
		argv = append(argv, "-d", filepath.Base(driver))
		programs = append(programs, driver)
	}
	// The C library opens it by name when a thread is cancelled.
	if unwinder, _ := filepath.Glob("/lib/*/libgcc_s.so.1"); len(unwinder) > 0 {
		files[libraryPlace(unwinder[0])] = unwinder[0]
	}
	for _, p := range programs {
		if err := addLibraries(ctx, files, p); err != nil {
			return nil, nil, err
		}
	}
	return argv, files, nil
}

// libraryPlace is where a guest has a shared library. All lie in one directory, so
// that none is there under two names, which would be loaded twice.
func libraryPlace(library string) string { return filepath.Join("/lib", filepath.Base(library)) }

// What ldd prints of a library, and of the loader, which lies where programs say.
var (
	library = regexp.MustCompile(`(?m)=> (/\S+) \(0x`)
	loader  = regexp.MustCompile(`(?m)^\s*(/\S+) \(0x`)
)

// addLibraries adds the shared libraries of a program and its loader.
func addLibraries(ctx context.Context, files map[string]string, program string) error {
	said, err := runIn(ctx, "", "ldd", program)
	if err != nil {
		return err
	}
	for _, m := range library.FindAllStringSubmatch(said, -1) {
		files[libraryPlace(m[1])] = m[1]
	}
	for _, m := range loader.FindAllStringSubmatch(said, -1) {
		files[m[1]] = m[1]
	}
	return nil
}
