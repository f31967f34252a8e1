package pci_test

import (
	"strings"
	"testing"
	"time"

	"vionet/scripts/lab"
)

// cells are what the functions of a guest may be, with QEMU's options that
// make them so. UIO knows the line (INTx) alone, whatever the device has.
var cells = map[string][]string{
	"modern behind an IOMMU, MSI-X": nil,
	"modern, MSI-X":                 {"iommu_platform=off"},
	"modern, INTx":                  {"iommu_platform=off", "vectors=0"},
	"transitional, MSI-X":           {"iommu_platform=off", "disable-legacy=off"},
	"transitional, INTx":            {"iommu_platform=off", "disable-legacy=off"},
	"legacy, MSI-X":                 {"iommu_platform=off", "disable-legacy=off", "disable-modern=on"},
	"legacy, INTx":                  {"iommu_platform=off", "disable-legacy=off", "disable-modern=on", "vectors=0"},
}

// pullable is a function on a bus of its own, from which it can be pulled.
var pullable = []string{
	"-device", "pcie-root-port,id=port0,chassis=1",
	"-netdev", "hubport,id=extra,hubid=0",
	"-device", "virtio-net-pci,id=victim,bus=port0,netdev=extra,disable-legacy=on,iommu_platform=on",
}

// TestInVM runs the guest tests of this package in guests: one for each way to
// a function, with functions of every kind on one hub.
func TestInVM(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cells  []string
		unplug bool
		cfg    lab.Config
	}{
		{
			name:   "VFIO behind the IOMMU",
			cells:  []string{"modern behind an IOMMU, MSI-X", "modern behind an IOMMU, MSI-X"},
			unplug: true,
			cfg:    lab.Config{Arguments: pullable},
		},
		{
			name:  "VFIO around the IOMMU",
			cells: []string{"modern, MSI-X", "modern, INTx", "transitional, MSI-X", "legacy, MSI-X", "legacy, INTx"},
		},
		{
			name:   "UIO",
			cells:  []string{"modern, INTx", "transitional, INTx", "legacy, INTx"},
			unplug: true,
			cfg:    lab.Config{Driver: "uio_pci_generic", NoIOMMU: true, Arguments: pullable},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			driver := "vfio-pci"
			if tt.cfg.Driver != "" {
				driver = tt.cfg.Driver
			}
			tt.cfg.Modules = lab.VirtioModules
			tt.cfg.Env = []string{"VIONET_DRIVER=" + driver}
			if tt.unplug {
				tt.cfg.Env = append(tt.cfg.Env, "VIONET_UNPLUG=1")
			}
			runGuest(t, tt.cfg, tt.cells, tt.unplug)
		})
	}
}

// TestB03InVM drives functions of a guest without an IOMMU through VFIO.
func TestB03InVM(t *testing.T) {
	lab.Need(t, "qemu", "build")
	modules, err := lab.NoIOMMUModules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	runGuest(t, lab.Config{
		Driver: "none", NoIOMMU: true,
		Modules: append(modules, lab.VirtioModules...),
		Env:     []string{"VIONET_DRIVER=vfio-pci", "VIONET_NOIOMMU=1"},
	}, []string{"modern, MSI-X", "transitional, MSI-X", "legacy, INTx"}, false)
}

// runGuest boots a guest with functions and does what its tests wish for: pull
// and plug each cable, pull a function.
func runGuest(t *testing.T, cfg lab.Config, names []string, unplug bool) {
	lab.Need(t, "qemu")
	for _, name := range names {
		options, known := cells[name]
		if !known {
			t.Fatalf("no cell %q", name)
		}
		cfg.NICs = append(cfg.NICs, lab.NIC{Net: lab.Hub(0), Options: options})
	}
	binary, err := lab.BuildTest(t.Context(), t.TempDir(), "vionet/pci")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Files = map[string]string{"/test": binary}
	cfg.Program = []string{"/test", "-test.v", "-test.run=^TestGuest", "-test.timeout=90s"}
	cfg.Env = append(cfg.Env, "VIONET_GUEST=1", "GOTRACEBACK=all", "VIONET_CELLS="+strings.Join(names, ";"))
	g := lab.Boot(t, cfg)
	for i := range names {
		for _, up := range []bool{false, true} {
			expect(t, g, cableWish(i, up)+"\n")
			if err := g.SetLink(i, up); err != nil {
				t.Fatal(err)
			}
		}
	}
	if unplug {
		pullOut(t, g)
	}
	if status, err := g.Wait(t.Context()); status != 0 || err != nil {
		t.Fatalf("the tests failed in the guest: exit status %d, %v", status, err)
	}
	for line := range strings.Lines(g.Transcript()) {
		if strings.HasPrefix(line, "cell ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// pullOut has QEMU take the function away, which it can only when the guest
// lets go of it.
func pullOut(t *testing.T, g *lab.Guest) {
	t.Helper()
	expect(t, g, unplugWish+"\n")
	if _, err := g.Monitor("device_del victim"); err != nil {
		t.Fatal(err)
	}
	expect(t, g, unplugged+"\n")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		tree, err := g.Monitor("info qtree")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(tree, `id "victim"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("QEMU did not take the function away")
		}
	}
}

// expect waits for a wish of the guest.
func expect(t *testing.T, g *lab.Guest, wish string) {
	t.Helper()
	if _, err := g.Expect(t.Context(), wish); err != nil {
		t.Fatal(err)
	}
}
