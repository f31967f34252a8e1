package vhost

import (
	"encoding/binary"
	"slices"

	"vionet/port"
	"vionet/ring"
	"vionet/virtio"
)

// controlQueueSize is the number of descriptors of the control queue.
const controlQueueSize = 64

// controlFeatures are those of a control queue that the front end answers
// itself (devarg cq=1). A vhost-user back end has none: it gives the driver
// every frame, which is what promiscuous mode asks for and what the best-effort
// filters allow (virtio 1.2, sections 5.1.6.5.1 to 5.1.6.5.3).
const controlFeatures = virtio.NetCtrlVQ | virtio.NetCtrlRx | virtio.NetCtrlVLAN | virtio.NetCtrlMACAddr

// controlQueue is the device's side of the control queue, in this process: a
// kick runs the commands at once.
type controlQueue struct {
	f    *Frontend
	ring ring.Device
}

// controlIndex is the number of the control queue, or -1 while none was
// negotiated.
func (f *Frontend) controlIndex() int {
	if !f.driver.Has(virtio.NetCtrlVQ) {
		return -1
	}
	return virtio.ControlQueue(f.driver, f.cfg.Queues)
}

// setupControl takes the control queue; the back end never hears of it.
func (f *Frontend) setupControl(q port.QueueSetup) (port.Kicker, error) {
	opts := ring.DeviceOptions{Translate: f.driverMemory, EventIdx: f.accepted.Has(virtio.EventIdx)}
	c := &controlQueue{f: f}
	var err error
	if f.accepted.Has(virtio.RingPacked) {
		c.ring, err = ring.NewPackedDevice(q.Size, q.Desc.Bytes, q.Avail.Bytes, q.Used.Bytes, ring.FreshPacked, nil, opts)
	} else {
		c.ring, err = ring.NewSplitDevice(q.Size, q.Desc.Bytes, q.Avail.Bytes, q.Used.Bytes, opts)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// driverMemory gives the n bytes at a device address of the driver's memory.
func (f *Frontend) driverMemory(addr uint64, n uint32) ([]byte, bool) {
	f.mu.Lock()
	regions := f.mem
	f.mu.Unlock()
	for _, r := range regions {
		if off := addr - r.IOVA; addr >= r.IOVA && off < uint64(len(r.Bytes)) && uint64(n) <= uint64(len(r.Bytes))-off {
			return r.Bytes[off : off+uint64(n)], true
		}
	}
	return nil, false
}

// Kick implements port.Kicker. Whoever sends commands sends one at a time.
func (c *controlQueue) Kick(uint16) {
	var pieces [ring.IndirectEntries]ring.Piece
	var chain [1]ring.Chain
	for c.ring.Take(chain[:], pieces[:]) > 0 {
		written := c.answer(pieces[:chain[0].Pieces])
		c.ring.Complete([]ring.Completion{{Head: chain[0].Head, Len: written}})
		c.ring.Flush()
	}
}

// answer runs the command in a chain and writes the byte that says how it went
// behind it. It returns the number of bytes written.
func (c *controlQueue) answer(pieces []ring.Piece) (written uint32) {
	var words []byte
	for _, p := range pieces {
		b, ok := c.f.driverMemory(p.Addr, p.Len)
		switch {
		case !ok:
			return 0
		case p.Write && len(b) > 0:
			b[0] = c.run(words)
			return 1
		default:
			words = append(words, b...)
		}
	}
	return 0
}

// run does what a command asks for: class, number and data.
func (c *controlQueue) run(words []byte) (status uint8) {
	if len(words) < 2 {
		return virtio.CtrlErr
	}
	data := words[2:]
	switch code := virtio.ControlCommand(binary.BigEndian.Uint16(words)); code {
	case virtio.CtrlRxPromisc, virtio.CtrlRxAllMulti, virtio.CtrlMACTableSet, virtio.CtrlVLANAdd, virtio.CtrlVLANDel:
		return virtio.CtrlOK
	case virtio.CtrlMACAddrSet:
		return c.setMAC(data)
	case virtio.CtrlMQPairsSet:
		if len(data) < 2 || c.f.EnablePairs(int(binary.LittleEndian.Uint16(data))) != nil {
			return virtio.CtrlErr
		}
		return virtio.CtrlOK
	default:
		return virtio.CtrlErr
	}
}

// setMAC makes an address the one that the configuration space shows.
func (c *controlQueue) setMAC(data []byte) (status uint8) {
	if len(data) < 6 || data[0]&1 != 0 {
		return virtio.CtrlErr
	}
	c.f.mu.Lock()
	c.f.cfg.MAC = slices.Clone(data[:6])
	c.f.mu.Unlock()
	return virtio.CtrlOK
}
