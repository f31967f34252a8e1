package vhost

import (
	"encoding/binary"

	"vionet/mbuf"
)

// rarpLen is the length in bytes of an announcement: that of the shortest
// Ethernet frame, without its checksum.
const rarpLen = 60

// announcement is a frame that tells the network behind a port where a guest
// is now: after a migration, its switches still send to where it was. A guest
// that cannot say so itself has the back end say it (SEND_RARP).
type announcement [rarpLen]byte

// newAnnouncement is a broadcast request of reverse ARP (RFC 903) from and about
// the address mac.
func newAnnouncement(mac [6]byte) *announcement {
	const (
		etherTypeRARP = 0x8035
		etherTypeIPv4 = 0x0800
		hardware      = 1 // Ethernet
		request       = 3 // for the IP address that belongs to a MAC address
	)
	be := binary.BigEndian
	a := new(announcement)
	b := append(a[:0], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	b = append(b, mac[:]...)
	b = be.AppendUint16(b, etherTypeRARP)
	b = be.AppendUint16(b, hardware)
	b = be.AppendUint16(b, etherTypeIPv4)
	b = append(b, byte(len(mac)), 4)
	b = be.AppendUint16(b, request)
	b = append(b, mac[:]...)
	b = append(b, 0, 0, 0, 0)
	copy(a[len(b):], mac[:]) // the rest stays 0
	return a
}

// announce has the guest's address announced, which is the first six bytes of a
// message's number. A port of the back end receives the frame as if the guest
// had sent it; one that was not received yet makes way for it.
func (b *Backend) announce(number uint64) {
	var wire [8]byte
	binary.LittleEndian.PutUint64(wire[:], number)
	b.announcement.Store(newAnnouncement([6]byte(wire[:6])))
	for _, q := range b.queues {
		q.wake()
	}
	b.wake()
}

// announces reports whether there is a frame for takeAnnouncement.
func (b *Backend) announces() bool { return b.announcement.Load() != nil }

// takeAnnouncement takes the frame to be received, which then is the caller's;
// nil: there is none, or another goroutine was first.
func (b *Backend) takeAnnouncement() []byte {
	if a := b.announcement.Swap(nil); a != nil {
		return a[:]
	}
	return nil
}

// receiveAnnouncement is a burst of nothing but the announcement.
func (q *portRx) receiveAnnouncement(bufs []*mbuf.Buf) int {
	if len(bufs) == 0 {
		return 0
	}
	if q.cache.Get(bufs[:1]) == 0 {
		q.noBuf.Add(1)
		return 0
	}
	frame := q.backend.takeAnnouncement()
	if frame == nil {
		q.cache.Put(bufs[:1])
		return 0
	}
	copy(bufs[0].Renew(len(frame)), frame)
	bufs[0].Port = q.id
	q.packets.Add(1)
	q.bytes.Add(uint64(len(frame)))
	return 1
}
