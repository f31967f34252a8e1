package vhost

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watchDir gives a function that says which kinds of events there were in a
// directory since the last call.
func watchDir(t *testing.T, dir string) (events func() uint32) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_ATTRIB); err != nil {
		t.Fatal(err)
	}
	return func() (kinds uint32) {
		buf := make([]byte, 4096)
		n, _ := unix.Read(fd, buf)
		for b := buf[:max(n, 0)]; len(b) > 0; {
			kinds |= binary.LittleEndian.Uint32(b[4:])
			b = b[unix.SizeofInotifyEvent+binary.LittleEndian.Uint32(b[12:]):]
		}
		return kinds
	}
}

// The socket is never open to more than its mode says, whatever the umask.
func TestSocketMode(t *testing.T) {
	for _, tt := range []struct {
		umask      int
		mode, want fs.FileMode
		widened    bool // the umask took something that is given back
	}{
		{0, 0, 0o600, false}, {0o022, 0, 0o600, false}, {0o177, 0, 0o600, false}, {0o777, 0, 0o600, true},
		{0, 0o660, 0o660, false}, {0o022, 0o660, 0o660, true}, {0, 0o777, 0o777, false},
	} {
		path := socketPath(t)
		events := watchDir(t, filepath.Dir(path))
		old := unix.Umask(tt.umask)
		b, err := Listen(path, BackendConfig{SocketMode: tt.mode})
		unix.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Lstat(path)
		if err != nil || st.Mode().Perm() != tt.want {
			t.Errorf("mode %o under umask %o: %v, %v, want %o", tt.mode, tt.umask, st.Mode(), err, tt.want)
		}
		if got := events(); got&unix.IN_CREATE == 0 || got&unix.IN_ATTRIB != 0 != tt.widened {
			t.Errorf("mode %o under umask %o: events %#x", tt.mode, tt.umask, got)
		}
		b.Close()
	}
	path := socketPath(t)
	p, err := NewPort(PortConfig{Path: path, SocketMode: 0o640})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if st, err := os.Lstat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("socket of a port: %v, %v", st, err)
	}
}

// deadSocket leaves a socket file that nobody listens on.
func deadSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

// What is no socket stays where it is.
func TestListenKeepsOtherFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a file":      func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link to a dead socket": func(path string) error {
			deadSocket(t, path+".dead")
			return os.Symlink(path+".dead", path)
		},
	} {
		path := socketPath(t)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		_, err := Listen(path, BackendConfig{})
		if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "no socket") {
			t.Errorf("%s: %v, want that it is no socket", name, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
}

// Many replace a dead socket at once: one does, and nobody takes that one's
// socket for the dead one.
func TestListenReplacesOnce(t *testing.T) {
	for range 20 {
		path := socketPath(t)
		deadSocket(t, path)
		var winners atomic.Int32
		var winner atomic.Pointer[Backend]
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				if b, err := Listen(path, BackendConfig{}); err == nil {
					winners.Add(1)
					winner.Store(b)
				} else if !errors.Is(err, unix.EADDRINUSE) {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if n := winners.Load(); n != 1 {
			t.Fatalf("%d listen on one socket", n)
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if !alive(&conn{sock: c.(*net.UnixConn), timeout: time.Second}) {
			t.Error("the one that listens does not answer")
		}
		c.Close()
		winner.Load().Close()
	}
}

// A back end whose socket file was taken away does not remove another's.
func TestCloseLeavesAnothersSocket(t *testing.T) {
	path := socketPath(t)
	first, err := Listen(path, BackendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	second, err := Listen(path, BackendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the second one's socket: %v", err)
	}
	second.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// A second front end on the socket waits, which is told; the first does not
// notice.
func TestSecondFrontEndWaits(t *testing.T) {
	var log safeBuffer
	path := socketPath(t)
	b, err := Listen(path, BackendConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	connect := func() *conn {
		c, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return &conn{sock: c.(*net.UnixConn), timeout: time.Second}
	}
	first := newRawGuest(t, connect(), bare)
	first.share()
	first.start()
	impatient, second := connect(), connect()
	second.send(message{request: getFeatures})
	impatient.sock.Close()
	for i := range 10 {
		first.exchange(b, i)
		time.Sleep(time.Millisecond)
	}
	eventually(t, "the log to tell of it", func() bool { return strings.Contains(log.String(), "a front end has to wait") })
	first.exchange(b, 11)
	first.conn.sock.Close()
	limit := time.AfterFunc(10*time.Second, func() { second.sock.Close() })
	defer limit.Stop()
	if m, _, err := second.receive(); err != nil || m.request != getFeatures {
		t.Errorf("the second front end was answered with %v, %v", m, err)
	}
}
