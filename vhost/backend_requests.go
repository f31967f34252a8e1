package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// backendRequest is the number of a message that the back end sends of its own
// accord, over a socket that the front end gave it (BACKEND_REQ).
type backendRequest uint32

// The messages that a front end understands.
const (
	backendIOTLB        backendRequest = 1
	backendConfigChange backendRequest = 2
	backendVringCall    backendRequest = 4
	backendVringErr     backendRequest = 5
)

// requestReader reads the back end's messages on a goroutine of its own.
type requestReader struct {
	conn *conn
	done chan struct{}
}

// readRequests calls handle for each message, in order. The messages end with
// close, with the peer's end, and with the first that is not one at all.
func readRequests(c *conn, handle func(backendRequest, vringState) error) *requestReader {
	r := &requestReader{conn: c, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer c.sock.Close()
		for {
			h, body, fds, err := c.receiveRaw()
			closeFDs(fds)
			if err != nil {
				return
			}
			err = answerRequest(c, h, handle(backendRequest(h.request), decodeState(body)))
			if err != nil {
				return
			}
		}
	}()
	return r
}

// decodeState reads the body of the messages about a vring.
func decodeState(body []byte) (s vringState) {
	if len(body) == 8 {
		s.index = binary.LittleEndian.Uint32(body)
		s.num = binary.LittleEndian.Uint32(body[4:])
	}
	return s
}

// answerRequest acknowledges a message where that is wanted.
func answerRequest(c *conn, h header, failed error) error {
	if h.flags&flagNeedReply == 0 {
		return nil
	}
	var result uint64
	if failed != nil {
		result = 1
	}
	return c.sendRaw(uint32(h.request), flagVersion|flagReply, binary.LittleEndian.AppendUint64(nil, result))
}

// close ends the goroutine. A call on nil does nothing.
func (r *requestReader) close() {
	if r != nil {
		r.conn.sock.Close()
		<-r.done
	}
}

// handleRequest does what the back end asks for. It runs on the goroutine of
// the requests, while a method of the front end may hold the lock.
func (f *Frontend) handleRequest(request backendRequest, vring vringState) error {
	switch request {
	case backendConfigChange:
		select {
		case f.news <- struct{}{}:
		default: // there is news already
		}
		return nil
	case backendVringCall, backendVringErr:
		if uint64(vring.index) >= uint64(len(f.rings)) {
			return fmt.Errorf("queue %d of %d", vring.index, len(f.rings))
		}
		if request == backendVringErr {
			f.cfg.Log.Error("vhost: the back end reports a broken queue", "device", f.cfg.Name, "queue", vring.index)
			return nil
		}
		return f.rings[vring.index].interrupt()
	default:
		return errors.New("this front end does not know it")
	}
}

// offerRequests gives the back end a socket for messages of its own, and starts
// to read it.
func (f *Frontend) offerRequests(p *peer) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	p.requests = readRequests(&conn{sock: ours, timeout: f.cfg.Timeout}, f.handleRequest)
	file, err := theirs.File()
	if err != nil {
		return err
	}
	defer file.Close()
	return p.channel.tell(message{request: setBackendReqFD}, int(file.Fd()))
}
