package vhost

import (
	"fmt"
	"os"
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
	go func() {
		defer close(w.done)
		var count [8]byte
		for {
			if _, err := w.file.Read(count[:]); err != nil {
				return
			}
			wake()
		}
	}()
	return w, nil
}

// close ends the watch and closes the descriptor. A call on nil does nothing.
func (w *kickWatch) close() {
	if w != nil {
		w.file.Close()
		<-w.done
	}
}
