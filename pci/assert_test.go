package pci_test

import (
	"vionet/driver"
	"vionet/pci"
)

// A Transport is what the driver drives, and can reset single queues.
var (
	_ driver.Transport     = (*pci.Transport)(nil)
	_ driver.QueueResetter = (*pci.Transport)(nil)
)
