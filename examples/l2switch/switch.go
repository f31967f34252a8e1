package main

import (
	"vionet/driver"
	"vionet/mbuf"
	"vionet/port"
)

// maxAddresses bounds the table: anybody can make addresses up.
const maxAddresses = 4096

// headerLen is the length in bytes of an Ethernet header.
const headerLen = 14

// l2switch knows which port an address is behind. One goroutine drives it.
type l2switch struct {
	links []*link
	table map[[6]byte]*link
	cache *mbuf.Cache // of that goroutine
	pkts  [burst]*mbuf.Buf
}

// link is a port with its queues.
type link struct {
	*driver.Device
	rx  port.RxQueue
	tx  *driver.TxBuffer
	out []*mbuf.Buf // what of the present burst is to leave here
}

// forward moves a burst from every port, and returns the number of packets.
func (s *l2switch) forward() (moved int) {
	for _, from := range s.links {
		n := from.rx.Burst(s.pkts[:])
		for _, b := range s.pkts[:n] {
			s.sort(b, from)
		}
		for _, to := range s.links {
			to.send()
		}
		moved += n
	}
	return moved
}

// send hands a batch to the transmit buffer, which takes all of it.
func (l *link) send() {
	if len(l.out) > 0 {
		l.tx.Burst(l.out)
		l.out = l.out[:0]
	}
}

// sort learns from a frame and puts it into the batch of its destination.
func (s *l2switch) sort(b *mbuf.Buf, from *link) {
	frame := b.Bytes()
	if len(frame) < headerLen {
		b.Free()
		return
	}
	dst, src := [6]byte(frame[0:6]), [6]byte(frame[6:12])
	if _, known := s.table[src]; !isGroup(src) && (known || len(s.table) < maxAddresses) {
		s.table[src] = from
	}
	to := s.table[dst]
	switch {
	case to == nil: // also every group address
		s.flood(b, from)
	case to == from:
		b.Free()
	default:
		to.out = append(to.out, b)
	}
}

// isGroup reports whether an address is a multicast or the broadcast address.
func isGroup(mac [6]byte) bool { return mac[0]&1 != 0 }

// flood puts a frame, or copies of it, into the batches of all other ports.
func (s *l2switch) flood(b *mbuf.Buf, from *link) {
	for _, to := range s.links {
		if to == from {
			continue
		}
		if copied := s.cache.Copy(b); copied != nil {
			to.out = append(to.out, copied)
		}
	}
	b.Free()
}
