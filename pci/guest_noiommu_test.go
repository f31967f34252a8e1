package pci_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"vionet/pci"
)

// noIOMMUMode is VFIO's parameter for a machine without an IOMMU.
const noIOMMUMode = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"

// bindWithoutIOMMU binds the functions of a guest that has no IOMMU but a
// vfio that can do without, which VIONET_NOIOMMU=1 says. While the mode is off
// nothing is bound.
func bindWithoutIOMMU(t *testing.T) {
	t.Helper()
	nets := netFunctions(t)
	if os.Getenv("VIONET_NOIOMMU") != "1" || nets[0].Driver == pci.DriverVFIO {
		return
	}
	tree := pci.Tree{}
	for _, f := range nets {
		err := tree.Bind(pci.DriverVFIO, true, f.BDF)
		if !errors.Is(err, pci.ErrNoIOMMU) || !strings.Contains(err.Error(), noIOMMUMode) {
			t.Errorf("bind while the mode is off: %v, want pci.ErrNoIOMMU with the parameter", err)
		}
		if now, err := tree.Function(f.BDF); err != nil || now.Driver != f.Driver {
			t.Errorf("%s has driver %q, %v; had %q", f.BDF, now.Driver, err, f.Driver)
		}
	}
	if err := os.WriteFile(noIOMMUMode, []byte("Y"), 0); err != nil {
		t.Fatal(err)
	}
	for _, f := range nets {
		if err := tree.Bind(pci.DriverVFIO, true, f.BDF); err != nil {
			t.Fatal(err)
		}
	}
}
