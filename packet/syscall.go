package packet

import (
	"context"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"vionet/port"
)

// SyscallConn gives the descriptor that the port signals when frames may be there,
// for loops that wait for several things at once. A loop reads with
// unix.MSG_DONTWAIT until that gives unix.EAGAIN; the next frame then makes the
// descriptor readable. It counts edges (EPOLLIN with EPOLLET): nobody needs to
// read it, and nobody must.
//
// With Config.Poll there is no such descriptor: the error wraps
// port.ErrNotSupported.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	switch {
	case c.ctx.Err() != nil:
		return nil, c.failed("syscall", nil, c.why())
	case c.cfg.Poll:
		return nil, c.failed("syscall", nil, fmt.Errorf("a descriptor to wait on: %w: listen without Config.Poll", port.ErrNotSupported))
	case c.noAlarm != nil:
		return nil, c.failed("syscall", nil, c.noAlarm)
	}
	c.selecting.Store(true)
	return rawConn{c}, nil
}

// rawConn is the syscall.RawConn of a Conn.
type rawConn struct{ c *Conn }

// Control calls f with the descriptor, which stays open meanwhile. f must not
// close the Conn.
func (r rawConn) Control(f func(fd uintptr)) error {
	if err := r.lend(f); err != nil {
		return r.c.failed("control", nil, err)
	}
	return nil
}

func (r rawConn) lend(f func(fd uintptr)) error {
	r.c.fd.RLock()
	defer r.c.fd.RUnlock()
	if r.c.ctx.Err() != nil {
		return r.c.why()
	}
	f(uintptr(r.c.alarm.FD()))
	return nil
}

// Read calls f until it returns true, and between two calls waits for frames, as
// long as the read deadline allows.
func (r rawConn) Read(f func(fd uintptr) (done bool)) error {
	for {
		done := false
		err := r.lend(func(fd uintptr) { done = f(fd) })
		if err == nil && !done {
			err = r.c.readable()
		}
		if err != nil {
			return r.c.failed("read", nil, err)
		}
		if done {
			return nil
		}
	}
}

// Write is not supported: the descriptor says nothing of room.
func (r rawConn) Write(func(fd uintptr) (done bool)) error {
	return r.c.failed("write", nil, fmt.Errorf("wait for room by the descriptor: %w: WriteBatch waits by itself, as long as the write deadline allows", port.ErrNotSupported))
}

// readable waits until there is a frame.
func (c *Conn) readable() error {
	ctx, err := c.in.enter()
	if err != nil {
		return err
	}
	defer c.in.leave()
	c.disarm()
	for wait := (patience{}); !c.more(); {
		if err := c.awaitFrames(ctx, &wait); err != nil {
			return err
		}
	}
	return nil
}

// arm says that there is no frame, after the wish for a signal where somebody
// waits for it. It is nil when one has come in the last moment.
func (c *Conn) arm(ctx context.Context) error {
	if err := c.over(ctx); err != nil {
		return err
	}
	if !c.selecting.Load() {
		return unix.EAGAIN
	}
	if c.alarm.Arm() == 0 {
		c.alarm.Disarm()
		return nil
	}
	c.armed = true
	return unix.EAGAIN
}

// disarm takes the wish of arm back.
func (c *Conn) disarm() {
	if c.armed {
		c.alarm.Disarm()
		c.armed = false
	}
}

// why is the reason for the end of the Conn.
func (c *Conn) why() error { return context.Cause(c.ctx) }
