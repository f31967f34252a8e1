package pci

import (
	"vionet/mbuf"
	"vionet/port"
)

// access is one way to reach a function from user space. It owns the file
// descriptors; windows and the interrupt line are closed before it.
type access interface {
	// config reads the configuration space, as far as it can be read.
	config() ([]byte, error)
	// config16 reads two bytes of the configuration space.
	config16(at int) (uint16, error)
	// setCommand sets and clears bits of the function's PCI command register.
	setCommand(set, clear uint16) error
	// barSizes gives the sizes of the BARs in bytes, 0 for one that is not
	// there.
	barSizes() [numBARs]uint64
	// window gives access to a part of a BAR that lies within it.
	window(s Structure) (registers, error)

	// isolated reports whether an IOMMU keeps the function to the memory that
	// was mapped for it.
	isolated() bool
	// translated gives the device addresses that a device behind the IOMMU
	// can use. Without an IOMMU these are physical ones.
	translated() (port.Addressing, error)
	// mapDMA lets the function reach the regions at their device addresses;
	// on an error none of them is mapped.
	mapDMA(regions []mbuf.Region) error
	// unmapDMA undoes one mapDMA; close undoes those that are left.
	unmapDMA(regions []mbuf.Region) error

	// enableVectors switches MSI-X on and gives the number of vectors, want at
	// most; 0 when the function, or this way to it, has none.
	enableVectors(want int) (int, error)
	// route lets a vector signal an eventfd; -1 lets it signal nobody.
	route(vector, eventfd int) error
	// openLine opens the interrupt line (INTx).
	openLine() (interruptLine, error)
	// announceRemoval lets the kernel signal an eventfd when it wants the
	// function back. Where it never does, the error wraps port.ErrNotSupported.
	announceRemoval(eventfd int) error

	// close takes everything back that the access had given. A second call
	// does nothing.
	close() error
}

// interruptLine is the one interrupt of a function without MSI-X. It is masked
// from when it fires until unmask.
type interruptLine interface {
	// wait sleeps until the line has fired since the last wait; close ends it
	// with an error. One that wraps ErrGone says that the function was removed.
	wait() error
	unmask() error
	// vector is the MSI-X vector that the kernel's driver made a line of, or
	// noVector for a real line.
	vector() uint16
	close() error
}
