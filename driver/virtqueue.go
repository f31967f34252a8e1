package driver

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// virtqueue is a ring that the device knows, with its memory.
type virtqueue struct {
	ring   ring.Driver
	kicker port.Kicker
	event  port.Waiter // nil in poll mode
	size   int         // descriptors
	limit  int         // of them in use at most

	mem      *mbuf.Memory
	zones    []mbuf.Zone
	ended    atomic.Bool // with its port: the ring is gone
	broken   atomic.Pointer[error]
	onBroken func(error)
}

// queueWish is what a virtqueue is to be like.
type queueWish struct {
	index     int
	desc      int  // descriptors in use; 0: as many as the device has
	indirect  bool // chains of several descriptors go into tables, where negotiated
	interrupt bool
	onBroken  func(error)
}

// setupVirtqueue makes a virtqueue and tells the device about it. On an error
// nothing is left of it.
func (d *Device) setupVirtqueue(v *virtqueue, wish queueWish) error {
	size, err := d.transport.QueueSize(wish.index)
	if err != nil {
		return fmt.Errorf("read the size of virtqueue %d: %w", wish.index, err)
	}
	if size == 0 {
		return fmt.Errorf("the device has no virtqueue %d", wish.index)
	}
	v.size, v.limit, v.mem, v.onBroken = size, size, d.mem, wish.onBroken
	v.ended.Store(false)
	v.broken.Store(nil)
	if wish.desc != 0 {
		v.limit = min(wish.desc, size)
		v.size = d.ringSize(size, v.limit)
	}
	if err := d.setupRing(v, wish); err != nil {
		v.free()
		return fmt.Errorf("virtqueue %d: %w", wish.index, err)
	}
	return nil
}

// ringSize is the size of a ring in which limit descriptors are in use, where
// the device would take up to most. A legacy device takes only that size
// (virtio 1.2, section 2.7.2), and a split ring's is a power of two.
func (d *Device) ringSize(most, limit int) int {
	switch {
	case !d.accepted.Has(virtio.Version1):
		return most
	case d.accepted.Has(virtio.RingPacked):
		return limit
	default:
		return 1 << bits.Len(uint(limit-1))
	}
}

func (d *Device) setupRing(v *virtqueue, wish queueWish) error {
	opts, err := d.ringOptions(v, wish)
	if err != nil {
		return err
	}
	setup := port.QueueSetup{Index: wish.index, Size: v.size, Interrupt: wish.interrupt}
	if d.accepted.Has(virtio.RingPacked) {
		err = v.makePacked(&setup, opts)
	} else {
		err = v.makeSplit(&setup, opts)
	}
	if err != nil {
		return err
	}
	if v.kicker, err = d.transport.SetupQueue(setup); err != nil {
		return err
	}
	if wish.interrupt {
		v.event, err = d.transport.QueueEvent(wish.index)
	}
	return err
}

// ringOptions are what the negotiated features make of a ring.
func (d *Device) ringOptions(v *virtqueue, wish queueWish) (ring.Options, error) {
	opts := ring.Options{
		InOrder:  d.accepted.Has(virtio.InOrder),
		EventIdx: d.accepted.Has(virtio.EventIdx),
	}
	if wish.indirect && d.accepted.Has(virtio.IndirectDesc) {
		z, err := v.alloc(v.size*ring.IndirectLen, ring.IndirectLen)
		if err != nil {
			return opts, err
		}
		opts.Indirect, opts.IndirectIOVA = z.Bytes, z.IOVA
	}
	return opts, nil
}

func (v *virtqueue) makeSplit(s *port.QueueSetup, opts ring.Options) error {
	l, err := ring.NewSplitLayout(v.size)
	if err != nil {
		return err
	}
	z, err := v.alloc(l.Total, ring.UsedAlign)
	if err != nil {
		return err
	}
	s.Desc = z.Slice(0, l.DescLen())
	s.Avail = z.Slice(l.AvailOff, l.AvailLen)
	s.Used = z.Slice(l.UsedOff, l.UsedLen)
	v.ring, err = ring.NewSplit(v.size, v.limit, s.Desc.Bytes, s.Avail.Bytes, s.Used.Bytes, opts)
	return err
}

func (v *virtqueue) makePacked(s *port.QueueSetup, opts ring.Options) error {
	l, err := ring.NewPackedLayout(v.size)
	if err != nil {
		return err
	}
	z, err := v.alloc(l.Total, ring.PackedAlign)
	if err != nil {
		return err
	}
	s.Desc = z.Slice(0, l.DescLen())
	s.Avail = z.Slice(l.DriverOff, ring.EventLen)
	s.Used = z.Slice(l.DeviceOff, ring.EventLen)
	v.ring, err = ring.NewPacked(v.size, v.limit, s.Desc.Bytes, s.Avail.Bytes, s.Used.Bytes, opts)
	return err
}

// alloc takes device memory that free gives back.
func (v *virtqueue) alloc(size, align int) (mbuf.Zone, error) {
	z, err := v.mem.Alloc(size, align)
	if err == nil {
		v.zones = append(v.zones, z)
	}
	return z, err
}

// free gives the queue's memory back. The device was reset before, or never
// knew it.
func (v *virtqueue) free() {
	for _, z := range v.zones {
		v.mem.Free(z)
	}
	v.zones = nil
}

// show makes the device see what was added.
func (v *virtqueue) show() {
	v.ring.Publish()
	if v.ring.NeedKick() {
		v.kicker.Kick(v.ring.Position())
	}
}

// Err is nil, or why the queue has stopped for good.
func (v *virtqueue) Err() error {
	if e := v.broken.Load(); e != nil {
		return *e
	}
	return nil
}

// end makes the application's calls on the queue do nothing from then on, and Err
// say so, unless it has something worse to say.
func (v *virtqueue) end() {
	v.ended.Store(true)
	v.broken.CompareAndSwap(nil, &errEnded)
}

// noteBroken reports a broken ring once.
func (v *virtqueue) noteBroken() {
	if err := v.ring.Err(); err != nil {
		v.reportOnce(err)
	}
}

// reportOnce is apart from the bursts because the error that it stores is
// allocated.
func (v *virtqueue) reportOnce(err error) {
	if v.broken.CompareAndSwap(nil, &err) {
		v.onBroken(err)
	}
}

// ringMemory is the device memory in bytes that a virtqueue of size
// descriptors takes, with everything that may hang on it.
func ringMemory(size int, packed bool) (int, error) {
	ringLen := 0
	if packed {
		l, err := ring.NewPackedLayout(size)
		if err != nil {
			return 0, err
		}
		ringLen = l.Total
	} else {
		l, err := ring.NewSplitLayout(size)
		if err != nil {
			return 0, err
		}
		ringLen = l.Total
	}
	return ringLen + 2*ring.UsedAlign + size*(headerStride+ring.IndirectLen), nil
}
