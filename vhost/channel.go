package vhost

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrDisconnected is wrapped by the errors of a Frontend whose back end is
// gone and has not come back yet.
var ErrDisconnected = errors.New("the connection to the vhost-user back end has ended")

// channel is the front end's use of a connection: one request and its answer
// at a time, by one goroutine at a time. A goroutine of the channel's own is the
// only one that reads the socket, whether an answer is due or not; so it is
// also the one that notices when the peer goes away.
type channel struct {
	conn     *conn
	ack      bool      // REPLY_ACK was negotiated
	deadline time.Time // for answers, beside the connection's time-out; zero: none

	awaited atomic.Uint32 // the request that an answer is due for, or 0
	answers chan answer

	failOnce sync.Once
	cause    error         // why the connection ended; set before lost is closed
	lost     chan struct{} // closed when the connection has ended
	done     chan struct{} // closed when the goroutine has ended
}

// answer is an answer with the file descriptors that came with it.
type answer struct {
	message
	fds []int
}

// newChannel starts the reading goroutine.
func newChannel(c *conn) *channel {
	ch := &channel{
		conn:    c,
		answers: make(chan answer, 1),
		lost:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	go func() {
		defer close(ch.done)
		ch.read()
	}()
	return ch
}

// read hands answers over until the connection ends.
func (ch *channel) read() {
	for {
		m, fds, err := ch.conn.receive()
		if err != nil {
			ch.fail(err)
			return
		}
		switch {
		case !m.isReply() || uint32(m.request) != ch.awaited.Swap(0):
			err = fmt.Errorf("an unexpected %v", m.request)
		case len(fds) > 0 && m.request != getInflightFD:
			err = fmt.Errorf("%v was answered with a file descriptor", m.request)
		}
		if err != nil {
			closeFDs(fds)
			ch.fail(err)
			return
		}
		ch.answers <- answer{m, fds}
	}
}

// fail ends the connection; the first cause is kept.
func (ch *channel) fail(cause error) {
	ch.failOnce.Do(func() {
		if errors.Is(cause, io.EOF) {
			cause = nil
		}
		ch.cause = cause
		ch.conn.sock.Close()
		close(ch.lost)
	})
}

// close ends the connection and waits for the goroutine.
func (ch *channel) close() {
	ch.fail(nil)
	<-ch.done
	select {
	case late := <-ch.answers:
		closeFDs(late.fds)
	default:
	}
}

// isLost reports whether the connection has ended.
func (ch *channel) isLost() bool {
	select {
	case <-ch.lost:
		return true
	default:
		return false
	}
}

// peerEnded reports whether the peer has ended the connection. It was given up
// otherwise, and the peer may not know yet.
func (ch *channel) peerEnded() bool {
	return ch.isLost() && (ch.cause == nil || errors.Is(ch.cause, unix.EPIPE) || errors.Is(ch.cause, unix.ECONNRESET))
}

// err says that the connection has ended, and why.
func (ch *channel) err() error {
	if ch.cause == nil {
		return ErrDisconnected
	}
	return fmt.Errorf("%w (%v)", ErrDisconnected, ch.cause)
}

// errRefused is wrapped when the back end answered that a message failed.
var errRefused = errors.New("the back end refused it")

// tell sends a message that needs no answer but an acknowledgement, and waits
// for that when it was negotiated.
func (ch *channel) tell(m message, fds ...int) error {
	if !ch.ack {
		_, err := ch.exchange(m, false, fds...)
		return err
	}
	m.flags |= flagNeedReply
	a, err := ch.exchange(m, true, fds...)
	if err == nil && a.u64 != 0 {
		err = fmt.Errorf("%v: %w", m.request, errRefused)
	}
	return err
}

// ask sends a message and waits for its answer.
func (ch *channel) ask(m message) (message, error) {
	a, err := ch.exchange(m, true)
	closeFDs(a.fds)
	return a.message, err
}

// askFD sends a message and waits for its answer, with which a file descriptor
// must come.
func (ch *channel) askFD(m message) (message, int, error) {
	a, err := ch.exchange(m, true)
	if err == nil && len(a.fds) != 1 {
		err = fmt.Errorf("%v was answered with %d file descriptors instead of 1", m.request, len(a.fds))
	}
	if err != nil {
		closeFDs(a.fds)
		return message{}, -1, err
	}
	return a.message, a.fds[0], nil
}

// exchange sends m and, when answered is set, waits for the answer. A back end
// that lets the time-out pass is given up: whatever came later could not be
// told from the answer to another request.
func (ch *channel) exchange(m message, answered bool, fds ...int) (answer, error) {
	if ch.isLost() {
		return answer{}, fmt.Errorf("%v: %w", m.request, ch.err())
	}
	if answered {
		ch.awaited.Store(uint32(m.request))
	}
	if err := ch.conn.send(m, fds...); err != nil {
		ch.fail(err)
		return answer{}, fmt.Errorf("%v: %w", m.request, ch.err())
	}
	if !answered {
		return answer{}, nil
	}
	patience := ch.conn.timeout
	if !ch.deadline.IsZero() {
		patience = min(patience, time.Until(ch.deadline))
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-ch.answers:
		return a, nil
	case <-timer.C:
		ch.fail(fmt.Errorf("no answer within %v", patience.Round(time.Millisecond)))
	case <-ch.lost:
	}
	select {
	case a := <-ch.answers: // it came just before the end
		return a, nil
	default:
		return answer{}, fmt.Errorf("%v: %w", m.request, ch.err())
	}
}
