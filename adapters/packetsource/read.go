package packetsource

import (
	"fmt"
	"time"

	"github.com/gopacket/gopacket"

	"vionet/mbuf"
)

// ReadPacketData gives the next frame, in memory of its own. It sleeps until there is
// one. The CaptureInfo has the number of the receive queue as InterfaceIndex, and the
// time at which the frame was taken from it.
//
// After Close the error is both io.EOF and net.ErrClosed, by errors.Is. When the
// device breaks a rule, which stops a queue for good, the error says so once; the next
// call reads from the other queues.
func (h *Handle) ReadPacketData() (data []byte, ci gopacket.CaptureInfo, err error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	b, ci, err := h.next()
	if err != nil {
		return nil, ci, err
	}
	defer b.Free()
	return gather(make([]byte, 0, b.PacketLen()), b), ci, nil
}

// ZeroCopyReadPacketData is ReadPacketData without the copy: data is the buffer that
// the device wrote to. It is valid until the next read from the handle or Close,
// whoever calls them. A frame that lies in several buffers is copied all the same.
func (h *Handle) ZeroCopyReadPacketData() (data []byte, ci gopacket.CaptureInfo, err error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	b, ci, err := h.next()
	if err != nil {
		return nil, ci, err
	}
	h.lent = b
	if b.Next() == nil {
		return b.Bytes(), ci, nil
	}
	h.scratch = gather(h.scratch[:0], b)
	return h.scratch, ci, nil
}

// gather appends the bytes of a packet to dst.
func gather(dst []byte, b *mbuf.Buf) []byte {
	for ; b != nil; b = b.Next() {
		dst = append(dst, b.Bytes()...)
	}
	return dst
}

// next takes the next packet out of the last burst, or waits for one.
func (h *Handle) next() (*mbuf.Buf, gopacket.CaptureInfo, error) {
	h.takeBack()
	for len(h.waiting) == 0 || h.isClosed() {
		if h.isClosed() {
			return nil, gopacket.CaptureInfo{}, errEnd
		}
		if !h.receive() {
			if err := h.newFault(); err != nil {
				return nil, gopacket.CaptureInfo{}, err
			}
		}
		h.poller.Next(len(h.waiting), time.Time{})
	}
	b := h.waiting[0]
	h.waiting = h.waiting[1:]
	return b, gopacket.CaptureInfo{Timestamp: h.at, CaptureLength: b.PacketLen(), Length: b.PacketLen(), InterfaceIndex: h.queue}, nil
}

// takeBack frees the packet that was lent.
func (h *Handle) takeBack() {
	if h.lent != nil {
		h.lent.Free()
		h.lent = nil
	}
}

// receive takes a burst from the first queue that has packets, beginning behind the
// one that had some last, and reports whether there was one.
func (h *Handle) receive() bool {
	for range h.rx {
		h.queue = (h.queue + 1) % len(h.rx)
		if n := h.rx[h.queue].Burst(h.pkts[:]); n > 0 {
			h.waiting, h.at = h.pkts[:n], h.clock.Now()
			return true
		}
	}
	return false
}

// newFault is why a queue has stopped, once; nil: none has since the last call.
func (h *Handle) newFault() error {
	for i, q := range h.rx {
		err := q.Err()
		if err != nil && !h.broken[i] {
			h.broken[i] = true
			return fmt.Errorf("packetsource: receive queue %d of %s: %w", i, h.port.Name(), err)
		}
		h.broken[i] = err != nil
	}
	return nil
}
