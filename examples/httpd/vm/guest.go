package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vionet/examples/httpd/pages"
	"vionet/scripts/lab"
)

// The network: the kernel of a namespace, behind a tap, and the guest.
var (
	hostAddr  = netip.MustParsePrefix("192.0.2.1/24")
	guestAddr = netip.MustParsePrefix("192.0.2.2/24")
)

// timeout ends a guest. One that is emulated is slow.
const timeout = 10 * time.Minute

// server is a guest that serves, and the namespace that it is reached from.
type server struct {
	ns    *lab.Namespace
	guest *lab.Guest
	dir   string
}

// contestants serve over vionet, on a function bound to vfio-pci behind the guest's
// IOMMU, and over the kernel's own driver and stack: where they are fastest, which
// is without an IOMMU, and behind the same one. Everything else is alike.
var contestants = []struct {
	name string
	cfg  lab.Config
}{
	{"vionet, no kernel", lab.Config{Program: []string{"./examples/httpd", "-a", "0000:00:01.0", "-ip", guestAddr.String()}}},
	{"virtio_net of Linux", lab.Config{Program: []string{"./examples/httpd/kernel", guestAddr.String()}, Driver: "none", Modules: lab.VirtioModules, NoIOMMU: true}},
	{"the same, behind an IOMMU", lab.Config{Program: []string{"./examples/httpd/kernel", guestAddr.String()}, Driver: "none", Modules: lab.VirtioModules}},
}

// start boots a guest of that configuration, whose program is given by its place
// in the repository.
func start(ctx context.Context, cfg lab.Config) (_ *server, err error) {
	s := new(server)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "vionet-httpd-"); err != nil {
		return nil, err
	}
	if s.ns, err = lab.NewNamespace(); err != nil {
		return nil, err
	}
	tap, err := s.ns.Tap("tap0", hostAddr)
	if err != nil {
		return nil, err
	}
	binary, err := lab.Build(ctx, s.dir, cfg.Program[0])
	if err != nil {
		return nil, err
	}
	cfg.Files = map[string]string{"/bin/httpd": binary}
	cfg.Program = append([]string{"/bin/httpd"}, cfg.Program[1:]...)
	cfg.NICs, cfg.CPUs, cfg.Namespace, cfg.Timeout = []lab.NIC{{Net: tap}}, 2, s.ns, timeout
	if s.guest, err = lab.Start(ctx, cfg); err != nil {
		return nil, err
	}
	_, err = s.guest.Expect(ctx, "serving http://")
	return s, err
}

// fetch gets size bytes with curl, compares them and gives the rate in bytes a
// second, as curl saw it.
func (s *server) fetch(ctx context.Context, size int64) (rate float64, err error) {
	file := filepath.Join(s.dir, "page")
	text, err := s.ns.Output(ctx, "curl", "-sS", "--fail", "--max-time", "300",
		"-o", file, "-w", "%{speed_download}", fmt.Sprintf("http://%v/bytes/%d", guestAddr.Addr(), size))
	if err != nil {
		return 0, err
	}
	if err := pages.Compare(file, size); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(text), 64)
}

// fetchMany gets size bytes over each of n connections at once, and compares them.
func (s *server) fetchMany(ctx context.Context, size int64, n int) error {
	_, err := s.ns.Output(ctx, "curl", "-sS", "--fail", "--max-time", "300",
		"--parallel", "--parallel-immediate", "--parallel-max", strconv.Itoa(n), "-o", filepath.Join(s.dir, "page#1"),
		fmt.Sprintf("http://%v/bytes/%d?[1-%d]", guestAddr.Addr(), size, n))
	for i := 1; err == nil && i <= n; i++ {
		err = pages.Compare(filepath.Join(s.dir, "page"+strconv.Itoa(i)), size)
	}
	return err
}

// close ends the guest.
func (s *server) close() error {
	if s.guest != nil {
		s.guest.Close()
	}
	var err error
	if s.ns != nil {
		err = s.ns.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
