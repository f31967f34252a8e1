package vhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// defaultSocketMode lets nobody connect but the user and root.
const defaultSocketMode fs.FileMode = 0o600

// listener listens on a unix socket. Its file goes with it, unless another has
// taken its place.
type listener struct {
	*net.UnixListener
	path string
	file fs.FileInfo // nil: there is none to remove
}

// listen listens on a unix socket; a socket file that nobody listens on any more
// is replaced. mode is the file's, from the moment that it is there and whatever
// the umask; 0: defaultSocketMode.
func listen(path string, mode fs.FileMode) (*listener, error) {
	if mode == 0 {
		mode = defaultSocketMode
	}
	l, err := bind(path, mode)
	if errors.Is(err, unix.EADDRINUSE) && !isAbstract(path) {
		l, err = replaceStale(path, mode)
	}
	if err != nil {
		return nil, fmt.Errorf("vhost: listen on %s: %w", path, err)
	}
	return l, nil
}

// bind makes the socket and its file. The umask can only take from the mode of
// a socket, which is set before it has a name; what it took is given back.
func bind(path string, mode fs.FileMode) (*listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		controlErr := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), uint32(mode)) })
		return errors.Join(controlErr, err)
	}}
	made, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	l := &listener{UnixListener: made.(*net.UnixListener), path: path}
	l.SetUnlinkOnClose(false)
	if isAbstract(path) {
		return l, nil
	}
	l.file, err = os.Lstat(path)
	if err == nil && l.file.Mode().Perm() != mode {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// isAbstract reports whether path is the name of a socket without a file.
func isAbstract(path string) bool { return strings.HasPrefix(path, "@") }

// Close ends listening, and removes the file.
func (l *listener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
		os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// replaceStale listens at path in the place of a listener that has died. The
// lock of the directory keeps others from doing the same at the same time, and
// from taking each other's new socket for the dead one.
func replaceStale(path string, mode fs.FileMode) (*listener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for limit := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || time.Now().After(limit) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock its directory: %w", err)
	}
	if err := checkStale(path); err != nil {
		return nil, err
	}
	os.Remove(path)
	return bind(path, mode)
}

// checkStale is nil if path is the socket of a listener that has died, or is
// not there any more.
func checkStale(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("it is there and no socket: choose another path: %w", unix.EADDRINUSE)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("it is in use: stop whoever listens there, or choose another path: %w", unix.EADDRINUSE)
	}
	return nil
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
