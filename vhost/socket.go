package vhost

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// listen listens on a unix socket; a socket file that nobody listens on any more
// is replaced.
func listen(path string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if errors.Is(err, unix.EADDRINUSE) && isStale(path) {
		os.Remove(path)
		l, err = net.ListenUnix("unix", addr)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("vhost: %s is in use: stop whoever listens there, or choose another path: %w", path, unix.EADDRINUSE)
	}
	if err != nil {
		return nil, fmt.Errorf("vhost: listen on %s: %w", path, err)
	}
	return l, nil
}

// isStale reports whether path is the socket of a listener that has died.
func isStale(path string) bool {
	if st, err := os.Lstat(path); err != nil || st.Mode().Type() != os.ModeSocket {
		return false
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

// socketPair makes two connected sockets.
func socketPair() (a, b *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	a, err = adoptSocket(fds[0])
	b, errB := adoptSocket(fds[1])
	if err = errors.Join(err, errB); err == nil {
		return a, b, nil
	}
	for _, c := range []*net.UnixConn{a, b} {
		if c != nil {
			c.Close()
		}
	}
	return nil, nil, err
}

// adoptSocket makes a connection of a descriptor, which belongs to it, also
// when it fails.
func adoptSocket(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "vhost-user")
	defer f.Close() // the connection is a duplicate
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	sock, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("it is no unix socket")
	}
	return sock, nil
}
