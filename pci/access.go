package pci

import (
	"vionet/mbuf"
	"vionet/port"
)

// access is one way to reach a function from user space. It owns the file
// descriptors; windows are closed before it.
type access interface {
	// config reads the configuration space, as far as it can be read.
	config() ([]byte, error)
	// barSizes gives the sizes of the BARs in bytes, 0 for one that is not
	// there.
	barSizes() [numBARs]uint64
	// window gives access to a part of a BAR that lies within it.
	window(s Structure) (registers, error)
	// setCommand sets and clears bits of the function's PCI command register.
	setCommand(set, clear uint16) error
	// translated gives the device addresses that a device behind the IOMMU
	// can use. Without an IOMMU these are physical ones.
	translated() port.Addressing
	// mapDMA lets the function reach the regions at their device addresses;
	// on an error none of them is mapped.
	mapDMA(regions []mbuf.Region) error
	// close takes everything back that the access had given. A second call
	// does nothing.
	close() error
}
