//go:build !race

package pci

// raceEnabled says that buffers of system calls move to the heap, for the
// race detector to watch.
const raceEnabled = false
