package packet_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vionet/packet"
	"vionet/port"
)

// A loop that waits with epoll, and reads only when the descriptor says so, gets
// every frame.
func TestSelectLoop(t *testing.T) {
	c := loopback(t, packet.Config{})
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epoll)
	err = raw.Control(func(fd uintptr) {
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, int(fd), &event)
	})
	if err != nil {
		t.Fatal(err)
	}
	ms := []packet.Message{{Buffers: [][]byte{make([]byte, 100)}}}
	readAll := func() (n int) {
		for {
			_, err := c.ReadBatch(ms, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	const rounds = 100
	received := readAll() // and the descriptor is armed
	for i := range rounds {
		write(t, c, frame(60, "tick"))
		for received <= i {
			if n, err := unix.EpollWait(epoll, make([]unix.EpollEvent, 1), 20_000); n == 0 && received+readAll() <= i {
				t.Fatalf("round %d: nobody woke the loop, %v", i, err)
			}
			received += readAll()
		}
	}
	if received != rounds {
		t.Errorf("%d frames of %d were read", received, rounds)
	}
}

// RawConn.Read waits by itself, until its deadline.
func TestRawRead(t *testing.T) {
	c := loopback(t, packet.Config{})
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	write(t, c, frame(60, "to be read"))
	c.SetReadDeadline(soon())
	ms := []packet.Message{{Buffers: [][]byte{make([]byte, 100)}}}
	err = raw.Read(func(uintptr) bool {
		_, err := c.ReadBatch(ms, unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN)
	})
	if err != nil || ms[0].N != 60 {
		t.Errorf("%d bytes were read, %v", ms[0].N, err)
	}
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if err := raw.Read(func(uintptr) bool { return false }); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read behind the deadline: %v", err)
	}
	if err := raw.Write(func(uintptr) bool { return true }); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("a wait for room: %v", err)
	}
	c.Close()
	if err := raw.Control(func(uintptr) { t.Error("the descriptor of a closed Conn was lent") }); err == nil {
		t.Error("Control works on a closed Conn")
	}
}

func TestNoDescriptor(t *testing.T) {
	c := loopback(t, packet.Config{Poll: true})
	if _, err := c.SyscallConn(); !errors.Is(err, port.ErrNotSupported) {
		t.Errorf("error %v", err)
	}
}
