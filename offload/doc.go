// Package offload does in software what an application leaves to the device and
// a device has no means for: Internet checksums, the segmentation of large TCP and
// UDP packets, and a number for the flow that a frame belongs to.
//
// Nothing here locks, waits or allocates for each packet.
package offload
