package sender

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"vionet/bench/frames"
)

// Sizes of the AF_XDP socket.
const (
	chunkSize = 2048 // bytes
	chunks    = 4096
	ringSize  = 2048
)

// sendXDP sends from the memory of an AF_XDP socket. A veth can do no better than
// to copy the frames out of it.
func sendXDP(ctx context.Context, size int) error {
	frame, err := frames.UDP(0, size)
	if err != nil {
		return err
	}
	s, err := openXDP(Interface)
	if err != nil {
		return err
	}
	defer s.close()
	for i := range chunks {
		copy(s.memory[i*chunkSize:], frame)
	}
	fmt.Println(Ready)
	free, next := uint32(chunks), uint32(0)
	for ctx.Err() == nil {
		free += s.completed.take()
		n := min(free, s.tx.room())
		for i := range n {
			s.tx.set(i, uint64(next+i)%chunks*chunkSize, uint32(size))
		}
		s.tx.submit(n)
		next += n
		free -= n
		// With a device that copies it is this call that sends.
		err := unix.Sendto(s.fd, nil, unix.MSG_DONTWAIT, nil)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wake the AF_XDP socket: %w", err)
		}
	}
	return nil
}

// xdpSocket is an AF_XDP socket that sends.
type xdpSocket struct {
	fd        int
	memory    []byte // the chunks
	tx        xdpRing
	completed xdpRing
}

// openXDP opens a socket on queue 0 of an interface.
func openXDP(name string) (_ *xdpSocket, err error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW, 0)
	if err != nil {
		return nil, fmt.Errorf("this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS): %w", err)
	}
	s := &xdpSocket{fd: fd}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.memory, err = unix.Mmap(-1, 0, chunks*chunkSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return nil, fmt.Errorf("memory for chunks: %w", err)
	}
	if err := s.register(); err != nil {
		return nil, err
	}
	// A socket must have a fill ring, too, though nothing is received.
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_TX_RING} {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, ring, ringSize); err != nil {
			return nil, fmt.Errorf("size of AF_XDP ring %d: %w", ring, err)
		}
	}
	if err := s.mapRings(); err != nil {
		return nil, err
	}
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrXDP{Ifindex: uint32(iface.Index), Flags: unix.XDP_COPY | unix.XDP_USE_NEED_WAKEUP}); err != nil {
		return nil, fmt.Errorf("bind the AF_XDP socket to %s: %w", name, err)
	}
	return s, nil
}

func (s *xdpSocket) close() {
	unix.Close(s.fd)
	for _, m := range [][]byte{s.tx.memory, s.completed.memory, s.memory} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
}
