// Package offload does in software what an application leaves to the device and
// a device has no means for: Internet checksums, and the segmentation of large
// TCP and UDP packets.
//
// Nothing here locks, waits or allocates for each packet.
package offload
