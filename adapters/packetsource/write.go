package packetsource

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// Sizes in bytes.
const (
	header   = 14
	overhead = header + 4 // with a VLAN tag
)

// WritePacketData sends a frame, from the Ethernet header on and without a frame
// check sequence. It copies data, and waits while the transmit queue or the pool has
// no room. It returns when the queue has the frame, which may not have left yet.
//
// A frame that has no whole header, or is longer than the port's MTU or the pool's
// buffers allow, is an error that wraps port.ErrInvalid; the longer one is
// unix.EMSGSIZE too. After Close the error is net.ErrClosed; on a queue that has
// stopped for good it is the queue's.
func (h *Handle) WritePacketData(data []byte) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if err := h.check(len(data)); err != nil {
		return fmt.Errorf("packetsource: %s: %w", h.port.Name(), err)
	}
	var b *mbuf.Buf
	if err := h.until(func() bool { b = h.pool.Get(); return b != nil }); err != nil {
		return err
	}
	copy(b.Append(len(data)), data)
	one := [1]*mbuf.Buf{b}
	if err := h.until(func() bool { return h.tx.Burst(one[:]) == 1 }); err != nil {
		b.Free()
		return err
	}
	return nil
}

func (h *Handle) check(size int) error {
	room := h.pool.BufSize() - mbuf.Headroom
	switch {
	case size < header:
		return fmt.Errorf("frame of %d bytes: %w: must have at least the %d of an Ethernet header", size, port.ErrInvalid, header)
	case size > h.maxFrame:
		return fmt.Errorf("frame of %d bytes: %w: %w: the port's MTU allows %d: raise port.Config.MTU", size, port.ErrInvalid, unix.EMSGSIZE, h.maxFrame)
	case size > room:
		return fmt.Errorf("frame of %d bytes: %w: %w: the pool's buffers hold %d: raise mbuf.PoolConfig.BufSize", size, port.ErrInvalid, unix.EMSGSIZE, room)
	}
	return nil
}

// Waiting for room: the device takes a burst within microseconds, unless it is
// stuck.
const (
	eagerTries = 100
	pause      = 50 * time.Microsecond
)

// until tries until ok, and frees what was sent in between.
func (h *Handle) until(ok func() bool) error {
	for try := 0; ; try++ {
		switch {
		case h.isClosed():
			return fmt.Errorf("packetsource: %s: %w", h.port.Name(), port.ErrClosed)
		case ok():
			return nil
		}
		if err := h.tx.Err(); err != nil {
			return fmt.Errorf("packetsource: transmit queue 0 of %s: %w", h.port.Name(), err)
		}
		h.tx.Reclaim()
		if try < eagerTries {
			runtime.Gosched() // the device may be a goroutine of this processor
		} else {
			time.Sleep(pause)
		}
	}
}
