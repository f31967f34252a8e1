package fakedev

import (
	"encoding/binary"
	"fmt"

	"vionet/virtio"
)

// Frame is what a device reads from a transmit queue: the network header and
// the frame behind it.
type Frame struct {
	Header virtio.NetHeader
	Data   []byte
	Chain  Chain
}

// TakeSent takes the next frame that the driver sent on a queue pair, without
// completing it: Queue.Use does that.
func (d *Device) TakeSent(pair int) (Frame, error) {
	q := d.Queue(virtio.TxQueue(pair))
	if q == nil {
		return Frame{}, fmt.Errorf("pair %d is not set up", pair)
	}
	c, err := q.Take()
	if err != nil {
		return Frame{}, err
	}
	all := c.Readable()
	hdrLen := virtio.HeaderSize(d.Accepted())
	if len(all) < hdrLen {
		return Frame{}, fmt.Errorf("pair %d: a chain of %d bytes is shorter than the header", pair, len(all))
	}
	return Frame{Header: virtio.DecodeNetHeader(all[:hdrLen]), Data: all[hdrLen:], Chain: c}, nil
}

// Sent takes and completes every frame that the driver sent on a queue pair.
func (d *Device) Sent(pair int) ([]Frame, error) {
	var frames []Frame
	q := d.Queue(virtio.TxQueue(pair))
	for q != nil && q.Available() > 0 {
		f, err := d.TakeSent(pair)
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
		q.Use(uint32(f.Chain.Head), 0)
	}
	return frames, nil
}

// Deliver puts one frame into the receive queue of a pair, spread over as many
// buffers as it takes, num_buffers set. It fails when the driver has not given
// enough buffers.
func (d *Device) Deliver(pair int, hdr virtio.NetHeader, frame []byte) error {
	return d.deliver(pair, hdr, nil, frame)
}

// DeliverHash is Deliver with what HASH_REPORT adds to the header: a hash, and
// the number of the type that it is of, 0 for none.
func (d *Device) DeliverHash(pair int, hash uint32, report uint16, frame []byte) error {
	tail := binary.LittleEndian.AppendUint32(nil, hash)
	return d.deliver(pair, virtio.NetHeader{}, binary.LittleEndian.AppendUint16(tail, report), frame)
}

// deliver puts tail behind the fields of hdr, as far as the header is longer.
func (d *Device) deliver(pair int, hdr virtio.NetHeader, tail, frame []byte) error {
	q := d.Queue(virtio.RxQueue(pair))
	if q == nil {
		return fmt.Errorf("pair %d is not set up", pair)
	}
	accepted := d.Accepted()
	packet := make([]byte, virtio.HeaderSize(accepted), virtio.HeaderSize(accepted)+len(frame))
	hdrLen := len(packet)
	packet = append(packet, frame...)
	type part struct {
		head uint16
		n    int
	}
	var parts []part
	var first []byte
	for rest := packet; len(rest) > 0; {
		c, err := q.Take()
		if err != nil {
			return fmt.Errorf("frame of %d bytes: %w", len(frame), err)
		}
		n := copy(c.Buffers[0].Bytes, rest)
		if first == nil {
			first = c.Buffers[0].Bytes
		}
		rest = rest[n:]
		parts = append(parts, part{c.Head, n})
		if len(rest) > 0 && !accepted.Has(virtio.NetMrgRxbuf) {
			return fmt.Errorf("frame of %d bytes does not fit a buffer, and mergeable buffers are off", len(frame))
		}
	}
	hdr.NumBuffers = uint16(len(parts))
	hdr.Encode(first[:hdrLen])
	copy(first[min(virtio.NetHeaderSize, hdrLen):hdrLen], tail)
	for _, p := range parts {
		q.PutUsed(uint32(p.head), uint32(p.n))
	}
	q.Publish()
	return nil
}
