package vhost

import "encoding/binary"

// completeChecksum fills in the checksum that the sender of frame has left to
// the device (virtio 1.2, section 5.1.6.2): the field at start+offset holds the
// sum of the pseudo header, and the rest from start on is added to it. The
// caller has checked that the field is within the frame.
func completeChecksum(frame []byte, start, offset uint16) {
	putChecksum(frame[int(start)+int(offset):], onesSum(frame[start:]))
}

// putChecksum writes the checksum of what has that sum.
func putChecksum(field []byte, sum uint16) {
	if sum = ^sum; sum == 0 {
		sum = 0xffff // the same number; UDP takes 0 for "no checksum"
	}
	binary.BigEndian.PutUint16(field, sum)
}

// fold brings a sum of 16-bit words into one, carries added in.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}

// onesSum is the ones' complement sum of b in 16-bit words (RFC 1071).
func onesSum(b []byte) uint16 {
	var sum uint64
	for ; len(b) >= 4; b = b[4:] {
		sum += uint64(binary.BigEndian.Uint32(b))
	}
	if len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
