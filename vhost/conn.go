package vhost

import (
	"encoding/binary"
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
	return c.write(m.encode(), fds)
}

// sendRaw writes a message of any kind.
func (c *conn) sendRaw(request, flags uint32, body []byte) error {
	b := binary.LittleEndian.AppendUint32(nil, request)
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	return c.write(append(b, body...), nil)
}

func (c *conn) write(b []byte, fds []int) error {
	if err := c.sock.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	n, _, err := c.sock.WriteMsgUnix(b, rights, nil)
	if err == nil && n < len(b) {
		_, err = c.sock.Write(b[n:])
	}
	return err
}

// receive waits for the next message, for as long as nothing of it has
// arrived. The descriptors that came with it belong to the caller, who gets
// none with an error.
func (c *conn) receive() (message, []int, error) {
	h, body, fds, err := c.receiveRaw()
	if err != nil {
		return message{}, nil, err
	}
	m, err := decodeBody(h, body)
	if err != nil {
		closeFDs(fds)
		return message{}, nil, err
	}
	return m, fds, nil
}

// receiveRaw is receive for a message whose body is still to be read.
func (c *conn) receiveRaw() (h header, body []byte, fds []int, err error) {
	defer func() {
		if err != nil {
			closeFDs(fds)
			fds = nil
		}
	}()
	if err := c.sock.SetReadDeadline(time.Time{}); err != nil {
		return header{}, nil, nil, err
	}
	var head [headerSize]byte
	if fds, err = c.readFull(head[:], fds, true); err != nil {
		return header{}, nil, fds, err
	}
	if h, err = decodeHeader(head); err != nil {
		return header{}, nil, fds, err
	}
	body = make([]byte, h.size)
	fds, err = c.readFull(body, fds, false)
	return h, body, fds, err
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
