package vhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// connector makes connections to a back end, one after the other.
type connector interface {
	// connect waits for the back end for as long as it makes sense, but not
	// beyond the end of ctx.
	connect(ctx context.Context) (*net.UnixConn, error)
	// close comes after the last connect.
	close()
}

// client connects to the socket that a back end listens on.
type client struct {
	path    string
	timeout time.Duration
}

func (c *client) connect(ctx context.Context) (*net.UnixConn, error) {
	dialer := net.Dialer{Timeout: c.timeout}
	sock, err := dialer.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, explainDial(c.path, err)
	}
	return sock.(*net.UnixConn), nil
}

func (c *client) close() {}

// explainDial turns an error of connecting into one that says what to do.
func explainDial(path string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("no vhost-user socket %s: start the back end first, or correct path=: %w", path, unix.ENOENT)
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("nobody listens on the socket %s: start the back end first, or correct path=: %w", path, unix.ECONNREFUSED)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("no permission to connect to %s: run as the back end's user, or as root: %w", path, unix.EACCES)
	default:
		return fmt.Errorf("connect to the vhost-user socket %s: %w", path, err)
	}
}

// server listens for back ends that connect.
type server struct {
	path     string
	listener *listener
}

func newServer(path string) (*server, error) {
	l, err := listen(path, defaultSocketMode)
	if err != nil {
		return nil, err
	}
	return &server{path: path, listener: l}, nil
}

// connect waits until a back end connects.
func (s *server) connect(ctx context.Context) (*net.UnixConn, error) {
	for {
		sock, err := s.accept(ctx)
		switch {
		case err == nil:
			return sock, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("no back end has connected to %s: start one that connects, such as net_vhost with client=1: %w", s.path, context.Cause(ctx))
		case !errors.Is(err, os.ErrDeadlineExceeded): // that of an earlier ctx
			return nil, fmt.Errorf("accept on %s: %w", s.path, err)
		}
	}
}

func (s *server) accept(ctx context.Context) (*net.UnixConn, error) {
	if err := s.listener.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return s.listener.AcceptUnix()
}

func (s *server) close() { s.listener.Close() }

// inProcess connects to a back end of this process.
type inProcess struct{ backend *Backend }

func (p inProcess) connect(ctx context.Context) (*net.UnixConn, error) { return p.backend.connect(ctx) }

func (p inProcess) close() {}
