package pci_test

import (
	"testing"

	"vionet/scripts/lab"
)

// TestInVM runs the guest tests of this package in a guest: behind an IOMMU,
// and around it.
func TestInVM(t *testing.T) {
	for name, options := range map[string][]string{
		"behind the IOMMU":        nil,
		"without ACCESS_PLATFORM": {"iommu_platform=off"},
	} {
		t.Run(name, func(t *testing.T) {
			lab.RunTests(t, "vionet/pci", "^TestGuest", lab.Config{
				NICs: []lab.NIC{
					{Net: lab.Hub(0), Options: options},
					{Net: lab.Hub(0), Options: options},
				},
				Modules: lab.VirtioModules,
			})
		})
	}
}
