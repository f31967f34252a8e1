package vhost

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// ErrDisconnected is wrapped by the errors of a Frontend whose back end is
// gone. Only a new Dial helps.
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
	answers chan message

	failOnce sync.Once
	cause    error         // why the connection ended; set before lost is closed
	lost     chan struct{} // closed when the connection has ended
	done     chan struct{} // closed when the goroutine has ended
}

// newChannel starts the reading goroutine. It calls onLost when the connection
// has ended, as the last thing it does.
func newChannel(c *conn, onLost func(cause error)) *channel {
	ch := &channel{
		conn:    c,
		answers: make(chan message, 1),
		lost:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	go func() {
		defer close(ch.done)
		ch.read()
		onLost(ch.cause)
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
		if len(fds) > 0 {
			closeFDs(fds)
			ch.fail(fmt.Errorf("%v was answered with a file descriptor", m.request))
			return
		}
		if !m.isReply() || uint32(m.request) != ch.awaited.Swap(0) {
			ch.fail(fmt.Errorf("an unexpected %v", m.request))
			return
		}
		ch.answers <- m
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
	answer, err := ch.exchange(m, true, fds...)
	if err == nil && answer.u64 != 0 {
		err = fmt.Errorf("%v: %w", m.request, errRefused)
	}
	return err
}

// ask sends a message and waits for its answer.
func (ch *channel) ask(m message) (message, error) { return ch.exchange(m, true) }

// exchange sends m and, when answered is set, waits for the answer. A back end
// that lets the time-out pass is given up: whatever came later could not be
// told from the answer to another request.
func (ch *channel) exchange(m message, answered bool, fds ...int) (message, error) {
	if ch.isLost() {
		return message{}, fmt.Errorf("%v: %w", m.request, ch.err())
	}
	if answered {
		ch.awaited.Store(uint32(m.request))
	}
	if err := ch.conn.send(m, fds...); err != nil {
		ch.fail(err)
		return message{}, fmt.Errorf("%v: %w", m.request, ch.err())
	}
	if !answered {
		return message{}, nil
	}
	patience := ch.conn.timeout
	if !ch.deadline.IsZero() {
		patience = min(patience, time.Until(ch.deadline))
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case answer := <-ch.answers:
		return answer, nil
	case <-timer.C:
		ch.fail(fmt.Errorf("no answer within %v", patience.Round(time.Millisecond)))
	case <-ch.lost:
	}
	select {
	case answer := <-ch.answers: // it came just before the end
		return answer, nil
	default:
		return message{}, fmt.Errorf("%v: %w", m.request, ch.err())
	}
}
