package vhost

import (
	"encoding/binary"

	"vionet/offload"
)

// completeChecksum fills in the checksum that the sender of frame has left to
// the device (virtio 1.2, section 5.1.6.2): the field at start+offset holds the
// sum of the pseudo header, and the rest from start on is added to it. The
// caller has checked that the field is within the frame.
func completeChecksum(frame []byte, start, offset uint16) {
	putChecksum(frame[int(start)+int(offset):], offload.Checksum(frame[start:]))
}

// putChecksum writes a checksum; as zero is "no checksum" for UDP, it is written
// as the other number that means the same.
func putChecksum(field []byte, sum uint16) {
	binary.BigEndian.PutUint16(field, offload.NonZero(sum))
}
