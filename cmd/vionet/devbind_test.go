package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"vionet/pci"
	"vionet/pci/pcitest"
)

// devbindKernel is a machine with a busy virtio function, one that is bound to
// vfio-pci, an idle one, a card of another kind without a driver and a disk.
func devbindKernel(t *testing.T) *pcitest.Kernel {
	k := pcitest.New(t)
	k.Add(pcitest.Function{BDF: "0000:00:03.0", Vendor: 0x1af4, Device: 0x1000, Driver: "virtio-pci", Group: 1, Interface: "eth0", Up: true})
	k.Add(pcitest.Function{BDF: "0000:00:04.0", Vendor: 0x1af4, Device: 0x1041, Driver: "vfio-pci", Group: 2})
	k.Add(pcitest.Function{BDF: "0000:00:05.0", Vendor: 0x1af4, Device: 0x1041, Driver: "virtio-pci", Group: 3, Interface: "eth1"})
	k.Add(pcitest.Function{BDF: "0000:00:06.0", Vendor: 0x8086, Device: 0x100e, Group: 4})
	k.Add(pcitest.Function{BDF: "0000:00:07.0", Vendor: 0x1af4, Device: 0x1042, Class: 0x010000, Driver: "virtio-pci", Group: 5})
	return k
}

func runDevbindCommand(k *pcitest.Kernel, args ...string) (string, error) {
	return runCommand(devbind(k.Store), append([]string{"--root", k.Root}, args...)...)
}

func runCommand(command *cli.Command, args ...string) (string, error) {
	var out bytes.Buffer
	app := &cli.App{
		Name:           "vionet",
		Writer:         &out,
		ErrWriter:      io.Discard,
		ExitErrHandler: func(*cli.Context, error) {},
		Commands:       []*cli.Command{command},
	}
	err := app.Run(append([]string{"vionet", command.Name}, args...))
	return out.String(), err
}

func TestDevbindStatus(t *testing.T) {
	const want = `
Network devices using DPDK-compatible driver
============================================
0000:00:04.0 'Virtio 1.0 network device 1041' drv=vfio-pci unused=virtio-pci

Network devices using kernel driver
===================================
0000:00:03.0 'Virtio network device 1000' if=eth0 drv=virtio-pci unused=vfio-pci *Active*
0000:00:05.0 'Virtio 1.0 network device 1041' if=eth1 drv=virtio-pci unused=vfio-pci

Other Network devices
=====================
0000:00:06.0 '82540EM Gigabit Ethernet Controller 100e' unused=vfio-pci
`
	for _, args := range [][]string{nil, {"--status"}, {"-s"}} {
		got, err := runDevbindCommand(devbindKernel(t), args...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("devbind %v: (-want +got)\n%s", args, diff)
		}
	}
}

func TestDevbindStatusEmpty(t *testing.T) {
	got, err := runDevbindCommand(pcitest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nNo 'Network' devices detected\n=============================\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDevbindChanges(t *testing.T) {
	for _, tt := range []struct {
		args    string
		wantErr error             // nil: none
		drivers map[string]string // those that changed
	}{
		{args: "-b vfio-pci 00:05.0", drivers: map[string]string{"0000:00:05.0": "vfio-pci"}},
		{args: "--bind vfio-pci 0000:00:05.0 00:06.0", drivers: map[string]string{"0000:00:05.0": "vfio-pci", "0000:00:06.0": "vfio-pci"}},
		{args: "-b vfio-pci 00:05.0 00:03.0", wantErr: pci.ErrInUse},
		{args: "--force -b vfio-pci 00:03.0", drivers: map[string]string{"0000:00:03.0": "vfio-pci"}},
		{args: "-u 00:04.0", drivers: map[string]string{"0000:00:04.0": "virtio-pci"}},
		{args: "-b uio_pci_generic 00:05.0", wantErr: pci.ErrNoDriver},
		{args: "-b vfio-pci 00:05.0 00:1f.0", wantErr: pci.ErrNoFunction},
	} {
		t.Run(tt.args, func(t *testing.T) {
			k := devbindKernel(t)
			want := map[string]string{
				"0000:00:03.0": "virtio-pci", "0000:00:04.0": "vfio-pci", "0000:00:05.0": "virtio-pci",
				"0000:00:06.0": "", "0000:00:07.0": "virtio-pci",
			}
			got := map[string]string{}
			out, err := runDevbindCommand(k, strings.Fields(tt.args)...)
			if !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
			if out != "" {
				t.Errorf("it printed %q", out)
			}
			for bdf := range want {
				got[bdf] = k.DriverOf(bdf)
			}
			for bdf, driver := range tt.drivers {
				want[bdf] = driver
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("drivers (-want +got)\n%s", diff)
			}
		})
	}
}

func TestDevbindUsage(t *testing.T) {
	for args, want := range map[string]string{
		"00:05.0":                    "neither --bind",
		"-b vfio-pci":                "no addresses",
		"-u":                         "no addresses",
		"-u -b vfio-pci 00:05.0":     "exclude each other",
		"-b vfio-pci 00:05.0 -force": "-force must stand before",
		"-b vfio-pci eth0":           `"eth0" is not a PCI address`,
		"-b= 00:05.0":                "needs the name of a driver",
	} {
		k := devbindKernel(t)
		_, err := runDevbindCommand(k, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("devbind %s: error %v, want one with %q", args, err, want)
		}
		if len(k.Writes) > 0 {
			t.Errorf("devbind %s: wrote %v", args, k.Writes)
		}
	}
}

// TestGuestDevbind runs inside a virtual machine with two virtio-net functions
// that are bound to vfio-pci; VIONET_GUEST=1 says that it is so.
func TestGuestDevbind(t *testing.T) {
	if os.Getenv("VIONET_GUEST") != "1" {
		t.Skip("not in a guest: VIONET_GUEST=1 is not set")
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := runCommand(devbindCommand(), args...)
		if err != nil {
			t.Fatalf("devbind %v: %v", args, err)
		}
		t.Logf("devbind %v: %s", args, out)
		return out
	}
	status := run("--status")
	bdf := regexp.MustCompile(`(?m)^([0-9a-f:.]+) '.*' drv=vfio-pci`).FindStringSubmatch(status)
	if bdf == nil {
		t.Fatal("no function is bound to vfio-pci")
	}
	if _, err := runCommand(devbindCommand(), "-u", bdf[1]); errors.Is(err, pci.ErrNoDriver) {
		t.Skipf("this guest can't show the rest: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if status := run(); !strings.Contains(status, "drv=virtio-pci unused=vfio-pci") {
		t.Errorf("%s was not given back", bdf[1])
	}
	run("-b", "vfio-pci", bdf[1])
	if got := run("-s"); got != status {
		t.Errorf("the functions are not bound as before")
	}
}
