package vhost

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kickWatch waits for a front end's kicks on one descriptor.
type kickWatch struct {
	file *os.File
	done chan struct{}
}

// watchKick calls wake, on a goroutine of its own, for every kick. fd belongs
// to the watch, also when it fails.
func watchKick(fd int, wake func()) (*kickWatch, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	w := &kickWatch{file: os.NewFile(uintptr(fd), "kick"), done: make(chan struct{})}
	// Only a file that the runtime can poll has deadlines; reading another
	// one could not be broken off.
	if err := w.file.SetReadDeadline(time.Time{}); err != nil {
		w.file.Close()
		return nil, fmt.Errorf("the kick descriptor cannot be waited for: %w", err)
	}
	raw, err := w.file.SyscallConn()
	if err != nil {
		w.file.Close()
		return nil, err
	}
	go func() {
		defer close(w.done)
		for awaitKick(raw) == nil {
			wake()
		}
	}()
	return w, nil
}

// awaitKick waits for a kick and takes it. That the descriptor does not block is
// as the front end likes, which may change it at any time: so each reading says
// for itself that it must not.
func awaitKick(raw syscall.RawConn) error {
	var count [8]byte
	var n int
	var err error
	waitErr := raw.Read(func(fd uintptr) (done bool) {
		n, err = unix.Preadv2(int(fd), [][]byte{count[:]}, -1, unix.RWF_NOWAIT)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	switch {
	case waitErr != nil:
		return waitErr
	case err == nil && n == 0:
		return io.EOF
	default:
		return err
	}
}

// close ends the watch and closes the descriptor. A call on nil does nothing.
func (w *kickWatch) close() {
	if w != nil {
		w.file.Close()
		<-w.done
	}
}
