package vhost

import (
	"encoding/binary"
	"fmt"

	"vionet/mbuf"
	"vionet/offload"
	"vionet/port"
	"vionet/virtio"
)

// portRequests are the flags of packets that ask for something.
const portRequests = mbuf.TxL4Mask | mbuf.TxVLAN

// portTx sends to the guest, over one of its receive queues.
type portTx struct {
	dev *Queue

	own      *mbuf.Cache // flushed when another takes its place
	cache    *mbuf.Cache // the one in use
	offloads port.TxOffloads
	sleeps   bool             // an Alarm was asked for
	tag      [vlanTagLen]byte // scratch of the packet being sent
	header   virtio.NetHeader // the same
	more     [][]byte         // the same: its pieces but the first
	gso      offload.Segmenter

	packets, bytes, errors port.Counter
}

func (q *portTx) start(c *port.Config) error {
	q.own = c.Pool.NewCache(0)
	q.cache, q.offloads, q.sleeps = q.own, c.TxOffloads, c.TxInterrupts
	if c.TxInterrupts {
		return q.dev.hangBell()
	}
	return nil
}

// release gives the buffers back. A cache of UseCache may be somebody else's by
// now.
func (q *portTx) release() {
	q.dev.takeBell()
	q.cache = q.own
	q.cache.Flush()
}

// Burst copies packets to the guest and frees them. A packet that asks for what
// is not there, or that the guest could never take, is dropped. The guest needs
// not kick for the buffers that it adds.
func (q *portTx) Burst(bufs []*mbuf.Buf) int {
	d := q.dev
	defer d.leave(d.enter())
	if d.ring == nil || len(bufs) == 0 {
		return 0
	}
	d.ring.Notify(false)
	frames, size, dropped := d.stats.Frames, d.stats.Bytes, d.stats.Dropped
	d.beginDelivery(len(bufs))
	n, refused := 0, 0
	for n < len(bufs) {
		if plain := d.deliverPlain(bufs[n:]); plain > 0 {
			n += plain
			continue
		}
		b := bufs[n]
		var header *virtio.NetHeader
		if b.Flags&portRequests != 0 {
			if q.mustCut(b) {
				if !q.sendSegments(b) {
					break
				}
				n++
				continue
			}
			if header = q.request(b); header == nil {
				refused++
				n++
				continue
			}
		}
		if !q.send(b, header) {
			break
		}
		n++
	}
	d.endDelivery()
	q.cache.Put(bufs[:n])
	q.packets.Add(d.stats.Frames - frames)
	q.bytes.Add(d.stats.Bytes - size)
	if lost := uint64(refused) + d.stats.Dropped - dropped; lost > 0 {
		q.errors.Add(lost)
	}
	return n
}

// send writes b with its header, nil for one that asks for nothing, to the guest. The VLAN tag goes between the
// pieces: the packet stays as it is. It is false when the guest has too few
// buffers.
func (q *portTx) send(b *mbuf.Buf, h *virtio.NetHeader) bool {
	d, size, data := q.dev, b.PacketLen(), b.Bytes()
	if b.Next() == nil && b.Flags&mbuf.TxVLAN == 0 {
		return d.deliver(h, data, nil, size)
	}
	q.more = q.more[:0]
	tagged := b.Flags&mbuf.TxVLAN != 0
	if tagged {
		binary.BigEndian.PutUint16(q.tag[:], etherTypeVLAN)
		binary.BigEndian.PutUint16(q.tag[2:], b.VLAN)
		q.more = append(q.more, q.tag[:], data[etherAddrsLen:])
		data = data[:etherAddrsLen]
		size += vlanTagLen
	}
	for seg := b.Next(); seg != nil; seg = seg.Next() {
		q.more = append(q.more, seg.Bytes())
	}
	sent := d.deliver(h, data, q.more, size)
	if tagged {
		d.copyNow() // the next packet's tag takes the place of this one's
	}
	return sent
}

// Reclaim has nothing to do: packets are copied.
func (q *portTx) Reclaim() int { return 0 }

// UseCache makes the queue free packets into c.
func (q *portTx) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

// Alarm is for loops that sleep until the guest has buffers to receive into; see
// port.Alarmer.
func (q *portTx) Alarm() (port.Alarm, error) {
	if !q.sleeps {
		return nil, fmt.Errorf("alarm of a transmit queue: %w: configure the port with TxInterrupts", port.ErrNotSupported)
	}
	return kickAlarm{q.dev, q.dev.askForKick}, nil
}

// Err is nil, or the rule that the guest broke; it is nil again when the guest
// has started the queue anew.
func (q *portTx) Err() error { return q.dev.Err() }

func (q *portTx) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Errors: q.errors.Load()}
}

func (q *portTx) reset() {
	for _, c := range []*port.Counter{&q.packets, &q.bytes, &q.errors} {
		c.Reset()
	}
}
