package driver

import (
	"fmt"

	"vionet/mbuf"
	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// setupQueues makes the configured queues, tells the device about them and
// fills the receive rings. The device looks at them after DRIVER_OK.
func (d *Device) setupQueues() error {
	rx, rxPath := rxPath(d.accepted, d.cfg.RxOffloads)
	tx, txPath := txPath(d.cfg.TxOffloads, !d.opts.NoSimpleTx)
	d.paths = port.Paths{Rx: rxPath, Tx: txPath}
	// The queues of a pair come together, whichever of the two is used.
	for i := range max(d.cfg.RxQueues, d.cfg.TxQueues) {
		q, err := d.newRxQueue(i, rx)
		if err != nil {
			return fmt.Errorf("receive queue %d: %w", i, err)
		}
		d.rx = append(d.rx, q)
		t, err := d.newTxQueue(i, tx)
		if err != nil {
			return fmt.Errorf("transmit queue %d: %w", i, err)
		}
		d.tx = append(d.tx, t)
	}
	return nil
}

func (d *Device) newRxQueue(i int, burst rxBurst) (*RxQueue, error) {
	v, err := d.newVirtqueue(virtio.RxQueue(i), d.cfg.RxDesc)
	if err != nil {
		return nil, err
	}
	hdrLen := virtio.HeaderSize(d.accepted)
	q := &RxQueue{
		ring: v.ring, kicker: v.kicker, ringZone: v.zone, limit: v.limit,
		burst:    burst,
		own:      d.cfg.Pool.NewCache(0),
		portID:   uint16(d.opts.ID),
		hdrLen:   hdrLen,
		room:     d.cfg.Pool.BufSize() - mbuf.Headroom + hdrLen,
		refillAt: 1,
		offloads: d.cfg.RxOffloads,
		bufs:     make([]*mbuf.Buf, v.size),
		onBroken: d.onBroken("receive", i),
	}
	q.cache = q.own
	q.refill()
	q.refillAt = max(1, v.limit/8)
	return q, nil
}

func (d *Device) newTxQueue(i int, burst txBurst) (*TxQueue, error) {
	v, err := d.newVirtqueue(virtio.TxQueue(i), d.cfg.TxDesc)
	if err != nil {
		return nil, err
	}
	headers, err := d.mem.Alloc(v.size*headerStride, headerStride)
	if err != nil {
		d.mem.Free(v.zone)
		return nil, err
	}
	q := &TxQueue{
		ring: v.ring, kicker: v.kicker, ringZone: v.zone, limit: v.limit,
		burst:     burst,
		own:       d.cfg.Pool.NewCache(0),
		hdrLen:    virtio.HeaderSize(d.accepted),
		reclaimAt: v.limit / 4,
		bufs:      make([]*mbuf.Buf, v.size),
		headers:   headers,
		staged:    newTxStage(),
		offloads:  d.cfg.TxOffloads,
		onBroken:  d.onBroken("transmit", i),
	}
	q.cache = q.own
	return q, nil
}

// virtqueue is a ring that the device knows.
type virtqueue struct {
	ring        ring.Driver
	kicker      port.Kicker
	zone        mbuf.Zone
	size, limit int
}

// newVirtqueue makes virtqueue index with desc descriptors in use, 0 for as
// many as the device has.
func (d *Device) newVirtqueue(index, desc int) (v virtqueue, err error) {
	v.size, err = d.transport.QueueSize(index)
	if err != nil {
		return v, fmt.Errorf("read the size of virtqueue %d: %w", index, err)
	}
	if v.size == 0 {
		return v, fmt.Errorf("the device has no virtqueue %d", index)
	}
	layout, err := ring.NewSplitLayout(v.size)
	if err != nil {
		return v, fmt.Errorf("virtqueue %d of the device: %w", index, err)
	}
	v.limit = v.size
	if desc != 0 {
		v.limit = min(desc, v.size)
	}
	v.zone, err = d.mem.Alloc(layout.Total, ring.UsedAlign)
	if err != nil {
		return v, err
	}
	setup := port.QueueSetup{
		Index: index,
		Size:  v.size,
		Desc:  v.zone.Slice(0, layout.DescLen()),
		Avail: v.zone.Slice(layout.AvailOff, layout.AvailLen),
		Used:  v.zone.Slice(layout.UsedOff, layout.UsedLen),
	}
	v.ring, err = ring.NewSplit(v.size, v.limit, setup.Desc.Bytes, setup.Avail.Bytes, setup.Used.Bytes, ring.Options{})
	if err == nil {
		v.kicker, err = d.transport.SetupQueue(setup)
	}
	if err != nil {
		d.mem.Free(v.zone)
	}
	return v, err
}

// onBroken gives the function that a queue calls once when its device breaks
// a rule.
func (d *Device) onBroken(side string, i int) func(error) {
	return func(err error) {
		d.log.Error(fmt.Sprintf("virtio: %s queue %d of port %d has stopped: %v: stop and start the port", side, i, d.opts.ID, err))
		go d.event(port.NeedsReset)
	}
}

// releaseQueues frees what the queues hold. The device was reset before, so
// that it touches none of it any more.
func (d *Device) releaseQueues() {
	for _, q := range d.rx {
		q.release()
		d.mem.Free(q.ringZone)
	}
	for _, q := range d.tx {
		q.release()
		d.mem.Free(q.ringZone)
		d.mem.Free(q.headers)
	}
	d.past = addStats(d.past, d.queueStats())
	d.rx, d.tx = nil, nil
}

// RingMemory is the device memory in bytes that the rings of the first pairs
// queue pairs take, for the size of the mbuf.Memory to make.
func (d *Device) RingMemory(pairs int) (int, error) {
	total := 0
	for index := range 2 * pairs {
		size, err := d.transport.QueueSize(index)
		if err != nil {
			return 0, fmt.Errorf("%s: read the size of virtqueue %d: %w", d.Name(), index, err)
		}
		if size == 0 {
			break // Start says which queue is missing
		}
		layout, err := ring.NewSplitLayout(size)
		if err != nil {
			return 0, fmt.Errorf("%s: virtqueue %d of the device: %w", d.Name(), index, err)
		}
		total += layout.Total + ring.UsedAlign + size*headerStride
	}
	return total, nil
}
