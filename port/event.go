package port

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter is what a device signals when it wants attention: a receive queue's
// interrupt.
type Waiter interface {
	// Wait sleeps until the device has signalled since the last Wait, or until
	// ctx is done. One goroutine at a time may call it. After the device was
	// closed it returns an error that wraps ErrClosed.
	Wait(ctx context.Context) error
	// FD is a descriptor on which every signal is a readable edge (EPOLLIN with
	// EPOLLET), for who waits for several at once. It belongs to the Waiter.
	FD() int
}

// EventFD is a Waiter on an eventfd, which sleeps in Go's poller: a waiting
// goroutine holds no thread.
type EventFD struct {
	file   *os.File
	closed atomic.Bool
}

// NewEventFD makes an eventfd whose count is 0.
func NewEventFD() (*EventFD, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &EventFD{file: os.NewFile(uintptr(fd), "eventfd")}, nil
}

// FD is the file descriptor, for a device to write to. It belongs to the
// EventFD.
func (e *EventFD) FD() int {
	conn, err := e.file.SyscallConn()
	if err != nil {
		return -1
	}
	fd := -1
	_ = conn.Control(func(n uintptr) { fd = int(n) })
	return fd
}

// Signal adds one to the count, which wakes whoever waits.
func (e *EventFD) Signal() error {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := e.file.Write(one[:])
	return err
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// Wait sleeps until the count is not 0, and takes it.
func (e *EventFD) Wait(ctx context.Context) error {
	err := e.wait(ctx)
	// The deadline of an earlier, cancelled Wait may come late.
	for errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
		err = e.wait(ctx)
	}
	switch {
	case err == nil:
		return nil
	case e.closed.Load():
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("eventfd: %w", err)
	}
}

func (e *EventFD) wait(ctx context.Context) error {
	if err := e.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { e.file.SetReadDeadline(longAgo) })
	defer stop()
	var count [8]byte
	_, err := e.file.Read(count[:])
	return err
}

// Close closes the file descriptor; a Wait that sleeps returns. A second call
// does nothing.
func (e *EventFD) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	return e.file.Close()
}
