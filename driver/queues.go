package driver

import (
	"fmt"

	"vionet/mbuf"
	"vionet/port"
	"vionet/virtio"
)

// setupQueues makes the configured queues, tells the device about them and
// fills the receive rings. The device looks at them after DRIVER_OK.
func (d *Device) setupQueues() error {
	rx, rxPath := rxPath(d.accepted, d.cfg.RxOffloads)
	tx, txPath := txPath(d.accepted, d.cfg.TxOffloads, !d.opts.NoSimpleTx)
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
	q := &RxQueue{
		path:     burst,
		own:      d.cfg.Pool.NewCache(0),
		portID:   uint16(d.opts.ID),
		hdrLen:   virtio.HeaderSize(d.accepted),
		offloads: d.cfg.RxOffloads,
		uso:      d.accepted&(virtio.NetGuestUSO4|virtio.NetGuestUSO6) != 0,
	}
	return q, d.setupRxQueue(q, i)
}

// setupRxQueue makes q's ring and fills it.
func (d *Device) setupRxQueue(q *RxQueue, i int) error {
	err := d.setupVirtqueue(&q.virtqueue, queueWish{
		index: virtio.RxQueue(i), desc: d.cfg.RxDesc,
		interrupt: d.cfg.RxInterrupts, onBroken: d.onBroken("receive", i),
	})
	if err != nil {
		return err
	}
	q.burst, q.cache = q.path, q.own
	q.room = d.cfg.Pool.BufSize() - mbuf.Headroom + q.hdrLen
	q.bufs = newBufTable(q.size)
	// Start kicks, whatever the device wants: before DRIVER_OK it must not be
	// notified (virtio 1.2, section 3.1.1).
	q.fill()
	q.ring.Publish()
	q.ring.NeedKick()
	q.refillAt = max(1, q.limit/8)
	return nil
}

func (d *Device) newTxQueue(i int, burst txBurst) (*TxQueue, error) {
	q := &TxQueue{
		burst:      burst,
		own:        d.cfg.Pool.NewCache(0),
		hdrLen:     virtio.HeaderSize(d.accepted),
		headerTail: wholeTail,
		staged:     newTxStage(),
		ecn:        d.accepted.Has(virtio.NetHostECN),
		offloads:   d.cfg.TxOffloads,
	}
	if d.opts.KeepNumBuffers {
		q.headerTail = tailButNumBuffers
	}
	return q, d.setupTxQueue(q, i)
}

// setupTxQueue makes q's ring.
func (d *Device) setupTxQueue(q *TxQueue, i int) error {
	err := d.setupVirtqueue(&q.virtqueue, queueWish{
		index: virtio.TxQueue(i), desc: d.cfg.TxDesc,
		indirect: true, interrupt: d.cfg.TxInterrupts, onBroken: d.onBroken("transmit", i),
	})
	if err != nil {
		return err
	}
	q.headers, err = q.alloc(q.size*headerStride, headerStride)
	if err != nil {
		q.free()
		return err
	}
	q.cache = q.own
	q.reclaimAt = d.cfg.TxFreeThresh
	if q.reclaimAt == 0 {
		q.reclaimAt = q.limit / 4
	}
	if q.reclaimAt >= q.limit && q.limit > 1 {
		q.free()
		return fmt.Errorf("%w: free threshold %d: must be less than the %d descriptors", port.ErrInvalid, q.reclaimAt, q.limit)
	}
	q.bufs = newBufTable(q.size)
	return nil
}

// onBroken gives the function that a queue calls once when its device breaks
// a rule.
func (d *Device) onBroken(side string, i int) func(error) {
	return func(err error) {
		d.log.Error(fmt.Sprintf("virtio: %s queue %d of port %d has stopped: %v: stop and start the port", side, i, d.opts.ID, err))
		go d.event(port.NeedsReset)
	}
}

// RingMemory is the device memory in bytes that the rings of the first pairs
// queue pairs and the control queue take, for the size of the mbuf.Memory to
// make.
func (d *Device) RingMemory(pairs int) (int, error) {
	d.mu.Lock()
	gone := d.state == closed
	d.mu.Unlock()
	if gone {
		return 0, fmt.Errorf("%s: ring memory: %w", d.Name(), port.ErrClosed)
	}
	total, err := d.controlMemory()
	if err != nil {
		return 0, err
	}
	for index := range 2 * pairs {
		size, err := d.transport.QueueSize(index)
		if err != nil {
			return 0, fmt.Errorf("%s: read the size of virtqueue %d: %w", d.Name(), index, err)
		}
		if size == 0 {
			break // Start says which queue is missing
		}
		n, err := ringMemory(size, d.offered.Has(virtio.RingPacked))
		if err != nil {
			return 0, fmt.Errorf("%s: virtqueue %d of the device: %w", d.Name(), index, err)
		}
		total += n
	}
	return total, nil
}
