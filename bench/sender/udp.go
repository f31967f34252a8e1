package sender

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"vionet/bench/frames"
)

// udpBatch is the number of datagrams in a system call.
const udpBatch = 64

// sendUDP sends with sendmmsg from a connected socket.
func sendUDP(ctx context.Context, size int) error {
	if size < frames.Headers {
		return fmt.Errorf("a frame of %d bytes is shorter than its headers, which have %d", size, frames.Headers)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("open a UDP socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: frames.Port, Addr: frames.Destination(0).As4()}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	messages := newMessages(udpBatch, size-frames.Headers)
	fmt.Println(Ready)
	for ctx.Err() == nil {
		if err := messages.send(fd); err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("sendmmsg: %w", err)
		}
	}
	return nil
}
