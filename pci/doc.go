// Package pci reaches virtio functions on the PCI bus from user space: it
// finds them, binds them to a kernel driver that lets go of them and gives
// them back, and drives them through VFIO and the modern virtio-pci registers
// (virtio 1.2, section 4.1).
//
// # Layers
//
// Tree is where sysfs, procfs and device nodes are; everything below works on
// a tree in a temporary directory as well as on the real one. Functions scans
// it, Bind and Release change which driver a function has.
//
// Open gives a Transport, the device as a driver sees it. Under it lies an
// access, one way to reach a function: its configuration space, windows of
// its BARs and DMA. VFIO is the one there is.
//
// # Goroutines
//
// A Tree may be used by several goroutines. A Transport belongs to one
// goroutine at a time; a Kicker belongs to the one that drives its queue.
package pci
