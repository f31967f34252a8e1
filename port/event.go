package port

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter is what a device signals when it wants attention: a queue's interrupt.
type Waiter interface {
	// Wait sleeps until the device has signalled since the last Wait, or until
	// ctx is done. One goroutine at a time may call it. After the device was
	// closed it returns an error that wraps ErrClosed.
	Wait(ctx context.Context) error
	// FD is a descriptor on which every signal is a readable edge (EPOLLIN with
	// EPOLLET), for who waits for several at once. It belongs to the Waiter.
	FD() int
}

// EventFD is a Waiter on an eventfd. Wait sleeps in Go's poller, where a waiting
// goroutine holds no thread. The descriptor is given to that poller with the first
// Wait, not before: from then on every signal wakes it too, and who sleeps on FD
// by other means would share its processor with a thread that has nothing to do.
type EventFD struct {
	mu   sync.Mutex
	fd   int      // -1: closed
	file *os.File // of fd, in Go's poller; nil before the first Wait
}

// NewEventFD makes an eventfd whose count is 0.
func NewEventFD() (*EventFD, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w: raise the limit of open files (ulimit -n)", err)
	}
	return &EventFD{fd: fd}, nil
}

// FD is the file descriptor, for a device to write to. It belongs to the
// EventFD, and is -1 when that is closed.
func (e *EventFD) FD() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fd
}

// Signal adds one to the count, which wakes whoever waits. Any goroutine may call
// it; after Close it does nothing and returns ErrClosed.
func (e *EventFD) Signal() error {
	// The lock keeps the descriptor from becoming another file's meanwhile.
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd < 0 {
		return ErrClosed
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, err := unix.Write(e.fd, one[:])
	return err
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// Wait sleeps until the count is not 0, and takes it.
func (e *EventFD) Wait(ctx context.Context) error {
	file, err := e.polled()
	if err != nil {
		return err
	}
	err = takeCount(ctx, file)
	// The deadline of an earlier, cancelled Wait may come late.
	for errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
		err = takeCount(ctx, file)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrClosed):
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("eventfd: %w", err)
	}
}

// polled is the descriptor in Go's poller.
func (e *EventFD) polled() (*os.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd < 0 {
		return nil, ErrClosed
	}
	if e.file == nil {
		e.file = os.NewFile(uintptr(e.fd), "eventfd")
	}
	return e.file, nil
}

func takeCount(ctx context.Context, file *os.File) error {
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(longAgo) })
	defer stop()
	var count [8]byte
	_, err := file.Read(count[:])
	return err
}

// Close closes the file descriptor; a Wait that sleeps returns. A second call
// does nothing.
func (e *EventFD) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	fd := e.fd
	e.fd = -1
	switch {
	case fd < 0:
		return nil
	case e.file != nil:
		return e.file.Close()
	default:
		return unix.Close(fd)
	}
}
