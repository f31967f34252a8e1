package vhost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one end of a vhost-user connection. One goroutine at a time may
// send, and one at a time receive.
type conn struct {
	sock    *net.UnixConn
	timeout time.Duration // for a message to be sent, or to arrive whole
}

// send writes a message; the descriptors in fds go with it and stay the
// caller's.
func (c *conn) send(m message, fds ...int) error {
	if err := c.sock.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	b := m.encode()
	n, _, err := c.sock.WriteMsgUnix(b, rights, nil)
	if err == nil && n < len(b) {
		_, err = c.sock.Write(b[n:])
	}
	return err
}

// receive waits for the next message, for as long as nothing of it has
// arrived. The descriptors that came with it belong to the caller, who gets
// none with an error.
func (c *conn) receive() (m message, fds []int, err error) {
	defer func() {
		if err != nil {
			closeFDs(fds)
			fds = nil
		}
	}()
	if err := c.sock.SetReadDeadline(time.Time{}); err != nil {
		return message{}, nil, err
	}
	var head [headerSize]byte
	if fds, err = c.readFull(head[:], fds, true); err != nil {
		return message{}, fds, err
	}
	h, err := decodeHeader(head)
	if err != nil {
		return message{}, fds, err
	}
	body := make([]byte, h.size)
	if fds, err = c.readFull(body, fds, false); err != nil {
		return message{}, fds, err
	}
	m, err = decodeBody(h, body)
	return m, fds, err
}

// readFull fills b and adds the descriptors that come along to fds. Once a
// message has begun its rest must come within the time-out.
func (c *conn) readFull(b []byte, fds []int, first bool) ([]int, error) {
	var oob [256]byte
	for done := 0; done < len(b); {
		if !first || done > 0 {
			if err := c.sock.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
				return fds, err
			}
		}
		n, oobn, flags, _, err := c.sock.ReadMsgUnix(b[done:], oob[:])
		received, rightsErr := parseRights(oob[:oobn])
		fds = append(fds, received...)
		done += n
		switch {
		case err == nil && n == 0, errors.Is(err, io.EOF):
			if first && done == 0 {
				return fds, io.EOF
			}
			return fds, io.ErrUnexpectedEOF
		case err != nil:
			return fds, err
		case rightsErr != nil:
			return fds, rightsErr
		case flags&unix.MSG_CTRUNC != 0 || len(fds) > maxFDs:
			return fds, fmt.Errorf("a message with more than %d file descriptors", maxFDs)
		}
	}
	return fds, nil
}

// parseRights takes the file descriptors out of control messages.
func parseRights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	controls, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range controls {
		if controls[i].Header.Level != unix.SOL_SOCKET || controls[i].Header.Type != unix.SCM_RIGHTS {
			continue
		}
		got, err := unix.ParseUnixRights(&controls[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// closeFDs closes the descriptors in fds; one that found another owner is -1.
func closeFDs(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
