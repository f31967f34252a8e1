package fakedev

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"vionet/port"
	"vionet/ring"
)

// Queue is the device's side of one virtqueue. Its methods are the device's
// moves; one goroutine at a time may make them.
type Queue struct {
	dev   *Device
	setup port.QueueSetup

	avail *atomic.Uint32 // flags | idx<<16
	used  *atomic.Uint32

	taken uint16 // available entries taken
	put   uint16 // used entries written
	flags uint16
	kicks atomic.Uint64
}

func newQueue(d *Device, s port.QueueSetup) *Queue {
	q := &Queue{dev: d, setup: s}
	q.avail, q.used = word(s.Avail.Bytes), word(s.Used.Bytes)
	return q
}

// Kick implements port.Kicker: it counts.
func (q *Queue) Kick(uint16) { q.kicks.Add(1) }

// Kicks is how often the driver notified the device.
func (q *Queue) Kicks() int { return int(q.kicks.Load()) }

// Size is the number of descriptors.
func (q *Queue) Size() int { return q.setup.Size }

// Buffer is one piece of a chain.
type Buffer struct {
	Addr  uint64
	Bytes []byte // nil when the address was never mapped
	Flags uint16
}

// Chain is what the driver made available under one head.
type Chain struct {
	Head    uint16
	Buffers []Buffer
}

// Readable is the content of all pieces that the device reads, in one slice.
func (c Chain) Readable() []byte {
	var all []byte
	for _, b := range c.Buffers {
		if b.Flags&ring.DescWrite == 0 {
			all = append(all, b.Bytes...)
		}
	}
	return all
}

// Available is the number of chains that wait to be taken.
func (q *Queue) Available() int { return int(uint16(q.avail.Load()>>16) - q.taken) }

// Take takes the next available chain. The device owns it until Use. It fails
// when nothing is there or when the driver's chain makes no sense.
func (q *Queue) Take() (Chain, error) {
	if q.Available() == 0 {
		return Chain{}, fmt.Errorf("virtqueue %d: nothing is available", q.setup.Index)
	}
	if n := q.Available(); n > q.setup.Size {
		return Chain{}, fmt.Errorf("virtqueue %d: %d entries available of %d", q.setup.Index, n, q.setup.Size)
	}
	slot := int(q.taken) % q.setup.Size
	q.taken++
	c := Chain{Head: binary.LittleEndian.Uint16(q.setup.Avail.Bytes[4+2*slot:])}
	for id, left := c.Head, q.setup.Size; ; left-- {
		if int(id) >= q.setup.Size || left == 0 {
			return Chain{}, fmt.Errorf("virtqueue %d: descriptor %d in chain %d", q.setup.Index, id, c.Head)
		}
		d := q.setup.Desc.Bytes[ring.DescSize*int(id):]
		addr, length := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint32(d[8:])
		flags, next := binary.LittleEndian.Uint16(d[12:]), binary.LittleEndian.Uint16(d[14:])
		c.Buffers = append(c.Buffers, Buffer{Addr: addr, Bytes: q.dev.bytes(addr, length), Flags: flags})
		if flags&ring.DescNext == 0 {
			return c, nil
		}
		id = next
	}
}

// Use gives the chain with that head back, with length bytes written, and
// shows the driver at once. Any id and length may be given, true or not.
func (q *Queue) Use(id, length uint32) {
	q.PutUsed(id, length)
	q.Publish()
}

// PutUsed writes the next used entry without showing it.
func (q *Queue) PutUsed(id, length uint32) {
	e := q.setup.Used.Bytes[4+8*(int(q.put)%q.setup.Size):]
	binary.LittleEndian.PutUint32(e, id)
	binary.LittleEndian.PutUint32(e[4:], length)
	q.put++
}

// Publish shows the driver the used entries that were put.
func (q *Queue) Publish() { q.used.Store(uint32(q.put)<<16 | uint32(q.flags)) }

// SkipUsed moves the used index without writing entries: a lie.
func (q *Queue) SkipUsed(n int) {
	q.put += uint16(n)
	q.Publish()
}

// SuppressKicks tells the driver whether notifications are wanted (virtio 1.2,
// section 2.7.10).
func (q *Queue) SuppressKicks(on bool) {
	q.flags = 0
	if on {
		q.flags = ring.UsedNoNotify
	}
	q.Publish()
}
