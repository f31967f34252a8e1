package lab

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// GuestTestpmd is the place of dpdk-testpmd in a guest that has DPDKFiles.
const GuestTestpmd = "/bin/dpdk-testpmd"

// guestDrivers are the drivers that testpmd needs on a virtio-net function. It looks
// for them itself, as files whose names end in ".so".
var guestDrivers = []string{"librte_bus_pci.so", "librte_mempool_ring.so", "librte_net_virtio.so"}

// DPDKFiles are this host's dpdk-testpmd with all that it loads, about 20 MB, for
// Config.Files.
func DPDKFiles(ctx context.Context) (map[string]string, error) {
	program, err := exec.LookPath("dpdk-testpmd")
	if err != nil {
		return nil, fmt.Errorf("%w: install dpdk-dev", err)
	}
	files := map[string]string{GuestTestpmd: program}
	programs := []string{program}
	for _, name := range guestDrivers {
		found, _ := filepath.Glob(filepath.Join("/usr/lib/*/dpdk/pmds-*", name))
		if len(found) != 1 {
			return nil, fmt.Errorf("%d files %s of DPDK: install dpdk-dev", len(found), name)
		}
		files[found[0]] = found[0]
		programs = append(programs, found[0])
	}
	// The C library opens it by name when a thread is cancelled.
	if unwinder, _ := filepath.Glob("/lib/*/libgcc_s.so.1"); len(unwinder) > 0 {
		files[unwinder[0]] = unwinder[0]
	}
	for _, p := range programs {
		if err := addLibraries(ctx, files, p); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// library is a line of ldd's, a library that lies where the program finds it.
var library = regexp.MustCompile(`(?:=> )?(/\S+) \(0x`)

// addLibraries adds the shared libraries of a program and its loader.
func addLibraries(ctx context.Context, files map[string]string, program string) error {
	said, err := runIn(ctx, "", "ldd", program)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(strings.NewReader(said)); lines.Scan(); {
		if m := library.FindStringSubmatch(lines.Text()); m != nil {
			files[m[1]] = m[1]
		}
	}
	return nil
}
