// Package pci reaches virtio functions on the PCI bus from user space: it
// finds them, binds them to a kernel driver that lets go of them and gives
// them back, and drives them (virtio 1.2, section 4.1).
//
// # Layers
//
// Tree is where sysfs, procfs and device nodes are; everything below works on
// a tree in a temporary directory as well as on the real one. Functions scans
// it, Bind and Release change which driver a function has.
//
// Open gives a Transport, the device as a driver sees it. Under it lie two
// things that know nothing of each other:
//
//   - an access, one way to reach a function: its configuration space, windows
//     of its BARs, DMA and interrupts. There are VFIO, with an IOMMU and
//     without, and UIO, that is uio_pci_generic and igb_uio.
//   - a layout, what the registers in those windows are: modern or legacy. A
//     transitional device has both and is driven as a modern one.
//
// Only VFIO with an IOMMU keeps a device from memory that it was not given. A
// device that is around the IOMMU, or without one, takes physical addresses.
//
// # Interrupts
//
// Nothing is interrupted unless somebody asks: Watch for changes of the
// configuration and the removal of the device, a QueueSetup with Interrupt for
// a queue. MSI-X serves each with a vector of its own. Where there is
// none, one goroutine tells from the ISR status whom the line has fired for.
//
// # Goroutines
//
// A Tree may be used by several goroutines. A Transport belongs to one
// goroutine at a time; a Kicker belongs to the one that drives its queue, a
// Waiter to the one that waits for it.
package pci
