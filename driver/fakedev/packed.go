package fakedev

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"vionet/port"
	"vionet/ring"
)

// Bits of a packed descriptor's flags (virtio 1.2, section 2.8.1).
const (
	packedAvail = 1 << 7
	packedUsed  = 1 << 15
)

// packedRing is a packed virtqueue (virtio 1.2, section 2.8). The driver looks
// at used entries as soon as they stand there, so publish holds the first of a
// batch back and writes it last.
type packedRing struct {
	setup       port.QueueSetup
	memory      memory
	driverEvent *atomic.Uint32
	deviceEvent *atomic.Uint32

	eventIdx bool
	silent   bool // no notifications are wanted

	next, at         int // of the next available and used descriptor
	nextWrap, atWrap bool
	shown            int            // place of the next used descriptor at the last wantsInterrupt
	slots            map[uint32]int // descriptors of each chain that was taken

	held     *atomic.Uint32 // the word held back, nil: none
	heldWord uint32
}

func newPackedRing(s port.QueueSetup, m memory, eventIdx bool) *packedRing {
	return &packedRing{
		setup: s, memory: m, eventIdx: eventIdx, driverEvent: word(s.Avail.Bytes, 0), deviceEvent: word(s.Used.Bytes, 0),
		nextWrap: true, atWrap: true, slots: map[uint32]int{},
	}
}

// idAndFlags is the word of descriptor i: id | flags<<16.
func (r *packedRing) idAndFlags(i int) *atomic.Uint32 {
	return word(r.setup.Desc.Bytes, ring.DescSize*i+12)
}

func (r *packedRing) available() int {
	chains := 0
	at, wrap := r.next, r.nextWrap
	for range r.setup.Size {
		flags := r.idAndFlags(at).Load() >> 16
		if (flags&packedAvail != 0) != wrap || (flags&packedUsed != 0) == wrap {
			break
		}
		if flags&uint32(ring.DescNext) == 0 {
			chains++
		}
		if at++; at == r.setup.Size {
			at, wrap = 0, !wrap
		}
	}
	return chains
}

func (r *packedRing) take() (Chain, error) {
	var c Chain
	slots := 0
	for {
		if slots++; slots > r.setup.Size {
			return Chain{}, fmt.Errorf("a chain of more than %d descriptors", r.setup.Size)
		}
		d := r.setup.Desc.Bytes[ring.DescSize*r.next:]
		w := r.idAndFlags(r.next).Load()
		addr, length, flags := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint32(d[8:]), uint16(w>>16)
		if r.next++; r.next == r.setup.Size {
			r.next, r.nextWrap = 0, !r.nextWrap
		}
		if flags&ring.DescIndirect != 0 {
			for t := r.memory(addr, length); len(t) >= ring.DescSize; t = t[ring.DescSize:] {
				addr, length := binary.LittleEndian.Uint64(t), binary.LittleEndian.Uint32(t[8:])
				c.Buffers = append(c.Buffers, Buffer{Addr: addr, Bytes: r.memory(addr, length)})
			}
		} else {
			c.Buffers = append(c.Buffers, Buffer{Addr: addr, Bytes: r.memory(addr, length), Flags: flags & (ring.DescNext | ring.DescWrite)})
		}
		if flags&ring.DescNext == 0 {
			c.Head = uint16(w)
			r.wantKick()
			r.slots[uint32(c.Head)] = slots
			return c, nil
		}
	}
}

func (r *packedRing) put(head, length uint32) {
	binary.LittleEndian.PutUint32(r.setup.Desc.Bytes[ring.DescSize*r.at+8:], length)
	flags := uint32(0)
	if r.atWrap {
		flags = packedAvail | packedUsed
	}
	w := r.idAndFlags(r.at)
	if r.held == nil {
		r.held, r.heldWord = w, head&0xffff|flags<<16
	} else {
		w.Store(head&0xffff | flags<<16)
	}
	r.skip(max(r.slots[head], 1))
	delete(r.slots, head)
}

func (r *packedRing) publish() {
	if r.held != nil {
		r.held.Swap(r.heldWord)
		r.held = nil
	}
}

func (r *packedRing) skip(n int) {
	for r.at += n; r.at >= r.setup.Size; {
		r.at, r.atWrap = r.at-r.setup.Size, !r.atWrap
	}
}

func (r *packedRing) suppress(on bool) {
	r.silent = on
	r.wantKick()
}

// wantKick asks for a notification of the next chain, unless none is wanted.
func (r *packedRing) wantKick() {
	switch {
	case r.silent:
		r.deviceEvent.Swap(1 << 16)
	case r.eventIdx:
		event := uint32(r.next) | 2<<16
		if r.nextWrap {
			event |= 1 << 15
		}
		r.deviceEvent.Swap(event)
	default:
		r.deviceEvent.Swap(0)
	}
}

// wantsInterrupt reports whether the place that the driver names was passed
// (section 2.8.10), or whether it wants to hear of everything.
func (r *packedRing) wantsInterrupt() bool {
	old := r.shown
	r.shown = r.place(r.at, r.atWrap)
	event := r.driverEvent.Load()
	switch event >> 16 {
	case 1:
		return false
	case 2:
		named := r.place(int(event&0x7fff), event&(1<<15) != 0)
		return !r.eventIdx || r.since(named, old) < r.since(r.shown, old)
	default:
		return r.shown != old
	}
}

// place numbers the descriptors of two turns of the ring, the first with the
// wrap counter 1.
func (r *packedRing) place(offset int, wrap bool) int {
	if wrap {
		return offset
	}
	return offset + r.setup.Size
}

// since counts the descriptors from one place to another.
func (r *packedRing) since(to, from int) int {
	turns := 2 * r.setup.Size
	return (to - from + turns) % turns
}
