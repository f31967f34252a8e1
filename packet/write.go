package packet

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// WriteTo sends the frame p, header included. Where it goes stands in it: addr may
// be of any type, and nil. WriteTo waits while the device has no room, and returns
// when the frame is on its way; p is the caller's again. A frame that is larger
// than the MTU allows is refused with an error that wraps unix.EMSGSIZE.
func (c *Conn) WriteTo(p []byte, addr net.Addr) (n int, err error) {
	ms := [1]Message{{Buffers: [][]byte{p}}}
	if _, err := c.write(ms[:], 0); err != nil {
		return 0, c.failed("write", addr, err)
	}
	return len(p), nil
}

// WriteBatch sends frames from the front of ms, as many as there is room for, and
// returns their number: it waits until that is 1 at least. Of each that was sent N
// is set. A frame that cannot be sent ends the batch before it, and is an error
// when it is the first.
//
// flags are 0 or unix.MSG_DONTWAIT, with which the error wraps unix.EAGAIN when
// there is no room.
func (c *Conn) WriteBatch(ms []Message, flags int) (int, error) {
	n, err := c.write(ms, flags)
	if err != nil {
		return 0, c.failed("write", nil, err)
	}
	return n, nil
}

func (c *Conn) write(ms []Message, flags int) (int, error) {
	if err := checkFlags(flags); err != nil {
		return 0, err
	}
	ctx, err := c.out.enter()
	if err != nil {
		return 0, err
	}
	defer c.out.leave()
	for {
		frames, err := c.load(ms)
		if err != nil || len(ms) == 0 {
			return 0, err
		}
		sent := c.tx.Burst(frames)
		c.txCache.Put(frames[sent:])
		switch {
		case sent > 0:
			return sent, nil
		case flags != 0:
			return 0, unix.EAGAIN
		}
		if err := c.awaitRoom(ctx, len(frames) > 0); err != nil {
			return 0, err
		}
	}
}

// load copies frames into buffers, as far as there are buffers, up to one that
// cannot be sent. That one is the error if it is the first.
func (c *Conn) load(ms []Message) ([]*mbuf.Buf, error) {
	n := c.txCache.Get(c.frames[:min(len(ms), batch)])
	for i, b := range c.frames[:n] {
		if err := c.gather(b, &ms[i]); err != nil {
			c.txCache.Put(c.frames[i:n])
			if i == 0 {
				return nil, err
			}
			return c.frames[:i], nil
		}
	}
	return c.frames[:n], nil
}

// gather makes b the frame in m.
func (c *Conn) gather(b *mbuf.Buf, m *Message) error {
	size := 0
	for _, piece := range m.Buffers {
		size += len(piece)
	}
	if size < headerLen {
		return fmt.Errorf("a frame of %d bytes: %w: the header alone has %d", size, port.ErrInvalid, headerLen)
	}
	if size > c.mtu+headerLen+tagLen {
		return c.tooLong(size)
	}
	dst := b.Renew(size)
	if dst == nil {
		return fmt.Errorf("a frame of %d bytes: %w: the buffers of the Conn's pool hold %d", size, unix.EMSGSIZE, b.Capacity()-mbuf.Headroom)
	}
	m.N = 0
	for _, piece := range m.Buffers {
		m.N += copy(dst[m.N:], piece)
	}
	if size > c.mtu+headerLen && !tagged(dst) {
		return c.tooLong(size)
	}
	return nil
}

func (c *Conn) tooLong(size int) error {
	return fmt.Errorf("a frame of %d bytes: %w: the MTU of %d allows %d, and %d more for a VLAN tag", size, unix.EMSGSIZE, c.mtu, c.mtu+headerLen, tagLen)
}

// tagged reports whether a frame has a VLAN tag (IEEE 802.1Q or 802.1ad).
func tagged(frame []byte) bool {
	etherType := binary.BigEndian.Uint16(frame[headerLen-2:])
	return etherType == 0x8100 || etherType == 0x88a8
}

// awaitRoom returns when there may be room for frames, or with the reason why none
// can be waited for. The wait for buffers, of a pool that others use too, has
// nobody who would end it.
func (c *Conn) awaitRoom(ctx context.Context, buffers bool) error {
	if err := broken(c.tx); err != nil {
		return err
	}
	if c.waiter == nil || !buffers {
		c.tx.Reclaim()
		return pause(ctx)
	}
	if err := c.waiter.Wait(ctx, max(1, c.room/4)); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// pollPause is between two looks at a queue that nobody can sleep on.
const pollPause = 100 * time.Microsecond

// pause lets some time pass, or returns why the wait is over.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollPause):
		return nil
	}
}
