package vhost

import (
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// rigRing is what the rig needs of a driver's side of a virtqueue.
type rigRing interface {
	room() int
	nextHead() uint16
	add(addr uint64, n uint32, flags uint16)
	publish() (kick bool)
	harvest(dst []rawDone) int
	arm() bool
}

// driverRing is the real driver's side.
type driverRing struct {
	drv  ring.Driver
	seg  [1]ring.Segment
	head [1]uint16
	done [rigSize]ring.Completion
}

// fancy are the features that rawRing does not know.
const fancy = virtio.RingPacked | virtio.EventIdx | virtio.InOrder

// newRigRing makes the plain side where the features allow it.
func newRigRing(q port.QueueSetup, features virtio.Features) (rigRing, error) {
	if features&fancy == 0 {
		return newRawRing(q), nil
	}
	opts := ring.Options{InOrder: features.Has(virtio.InOrder), EventIdx: features.Has(virtio.EventIdx)}
	var r driverRing
	var err error
	if features.Has(virtio.RingPacked) {
		r.drv, err = ring.NewPacked(q.Size, q.Size, q.Desc.Bytes, q.Avail.Bytes, q.Used.Bytes, opts)
	} else {
		r.drv, err = ring.NewSplit(q.Size, q.Size, q.Desc.Bytes, q.Avail.Bytes, q.Used.Bytes, opts)
	}
	return &r, err
}

func (r *driverRing) room() int        { return r.drv.Free() }
func (r *driverRing) nextHead() uint16 { return r.drv.NextHead() }
func (r *driverRing) arm() bool        { return r.drv.Arm() }

func (r *driverRing) add(addr uint64, n uint32, flags uint16) {
	r.seg[0] = ring.Segment{Addr: addr, Len: n}
	r.drv.AddEach(r.seg[:], flags, r.head[:])
}

func (r *driverRing) publish() bool {
	r.drv.Publish()
	return r.drv.NeedKick()
}

func (r *driverRing) harvest(dst []rawDone) int {
	n := r.drv.Harvest(r.done[:min(len(dst), rigSize)])
	for i, c := range r.done[:n] {
		dst[i] = rawDone{c.Head, c.Len}
	}
	if n == 0 && r.drv.Err() != nil {
		panic(r.drv.Err())
	}
	return n
}
