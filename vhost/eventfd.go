package vhost

import (
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// eventfd is a counter in the kernel that one half rings and the other waits
// for; here it is rung only, without a detour through Go's poller and without an
// allocation. port.EventFD and kickWatch wait. The zero value is not usable: see
// newEventfd.
type eventfd struct {
	fd      atomic.Int32  // -1: closed
	signals atomic.Uint32 // counts their beginnings and ends: odd while one is under way
	one     [8]byte       // what Kick writes: the number 1, little-endian
}

func newEventfd() (*eventfd, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w: raise the limit of open files (ulimit -n)", err)
	}
	return adoptEventfd(fd), nil
}

// adoptEventfd makes an eventfd of a descriptor, which belongs to it from then
// on.
func adoptEventfd(fd int) *eventfd {
	e := &eventfd{one: [8]byte{1}}
	e.fd.Store(int32(fd))
	return e
}

// adoptCall makes an eventfd of a descriptor that the front end has sent, which
// belongs to it or is closed. Nothing else is taken: a burst must not wait for a
// pipe that nobody reads, or for a disk.
func adoptCall(fd int) (*eventfd, error) {
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	switch {
	case err == nil && target != "anon_inode:[eventfd]":
		err = fmt.Errorf("%s was sent to call the driver: it is no eventfd", target)
	case err == nil:
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return adoptEventfd(fd), nil
}

// Kick implements port.Kicker; a back end finds the position in the ring.
func (e *eventfd) Kick(uint16) { e.signal() }

// signal adds 1 to the counter, which wakes the half that waits for it. It does
// not wait itself: a counter that is full has been noticed. But a front end can
// make its descriptor wait; see watchCalls.
func (e *eventfd) signal() {
	if fd := e.fd.Load(); fd >= 0 {
		e.signals.Add(1)
		unix.Write(int(fd), e.one[:])
		e.signals.Add(1)
	}
}

// release lets a signal that waits for room in the counter go on.
func (e *eventfd) release() {
	var count [8]byte
	unix.Preadv2(int(e.fd.Load()), [][]byte{count[:]}, -1, unix.RWF_NOWAIT)
}

// close gives the descriptor back. A second call, and one on nil, does
// nothing.
func (e *eventfd) close() {
	if e == nil {
		return
	}
	if fd := e.fd.Swap(-1); fd >= 0 {
		unix.Close(int(fd))
	}
}
