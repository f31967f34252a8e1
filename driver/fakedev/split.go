package fakedev

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"vionet/port"
	"vionet/ring"
)

// memory gives the bytes at a device address, or nil.
type memory func(addr uint64, n uint32) []byte

// splitRing is a split virtqueue (virtio 1.2, section 2.7).
type splitRing struct {
	setup  port.QueueSetup
	memory memory

	avail, used *atomic.Uint32 // flags | idx<<16
	usedEvent   *atomic.Uint32 // nil without EVENT_IDX, as is availEvent
	availEvent  *atomic.Uint32

	usedEventShift int

	taken uint16 // available entries taken
	done  uint16 // used entries written
	shown uint16 // and published, at the last wantsInterrupt
	flags uint16
}

func newSplitRing(s port.QueueSetup, m memory, eventIdx bool) *splitRing {
	r := &splitRing{setup: s, memory: m, avail: word(s.Avail.Bytes, 0), used: word(s.Used.Bytes, 0)}
	if eventIdx {
		// In a ring of one the driver's event shares its word with the entry.
		at := 4 + 2*s.Size
		r.usedEvent, r.usedEventShift = word(s.Avail.Bytes, at&^3), at%4*8
		r.availEvent = word(s.Used.Bytes, 4+8*s.Size)
	}
	return r
}

func (r *splitRing) available() int { return int(uint16(r.avail.Load()>>16) - r.taken) }

func (r *splitRing) take() (Chain, error) {
	if n := r.available(); n > r.setup.Size {
		return Chain{}, fmt.Errorf("%d entries available of %d", n, r.setup.Size)
	}
	slot := int(r.taken) % r.setup.Size
	r.taken++
	r.wantKick()
	c := Chain{Head: binary.LittleEndian.Uint16(r.setup.Avail.Bytes[4+2*slot:])}
	table, id := r.setup.Desc.Bytes, c.Head
	for left := r.setup.Size; ; left-- {
		if int(id) >= len(table)/ring.DescSize || left == 0 {
			return Chain{}, fmt.Errorf("descriptor %d in chain %d", id, c.Head)
		}
		d := table[ring.DescSize*int(id):]
		addr, length := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint32(d[8:])
		flags, next := binary.LittleEndian.Uint16(d[12:]), binary.LittleEndian.Uint16(d[14:])
		if flags&ring.DescIndirect != 0 {
			table, id = r.memory(addr, length), 0
			continue
		}
		c.Buffers = append(c.Buffers, Buffer{Addr: addr, Bytes: r.memory(addr, length), Flags: flags})
		if flags&ring.DescNext == 0 {
			return c, nil
		}
		id = next
	}
}

func (r *splitRing) put(head, length uint32) {
	e := r.setup.Used.Bytes[4+8*(int(r.done)%r.setup.Size):]
	binary.LittleEndian.PutUint32(e, head)
	binary.LittleEndian.PutUint32(e[4:], length)
	r.done++
}

func (r *splitRing) publish() { r.used.Swap(uint32(r.done)<<16 | uint32(r.flags)) }

func (r *splitRing) skip(n int) { r.done += uint16(n) }

func (r *splitRing) suppress(on bool) {
	r.flags = 0
	if on {
		r.flags = ring.UsedNoNotify
	}
	r.wantKick()
}

// wantKick asks for a notification of the next chain, unless none is wanted.
func (r *splitRing) wantKick() {
	if r.availEvent != nil && r.flags == 0 {
		r.availEvent.Swap(uint32(r.taken))
	}
}

func (r *splitRing) wantsInterrupt() bool {
	old := r.shown
	r.shown = r.done
	if r.usedEvent != nil {
		event := uint16(r.usedEvent.Load() >> r.usedEventShift)
		return r.done-event-1 < r.done-old
	}
	return uint16(r.avail.Load())&ring.AvailNoInterrupt == 0 && old != r.done
}
