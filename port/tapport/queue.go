package tapport

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// queue is what receive and transmit queues have in common.
type queue struct {
	tap   *tap
	own   *mbuf.Cache // flushed when another takes its place
	cache *mbuf.Cache // the one in use
	gone  func()      // tells the port that the interface is gone
	err   atomic.Pointer[error]
}

func (q *queue) start(t *tap, pool *mbuf.Pool) {
	q.tap, q.own = t, pool.NewCache(0)
	q.cache = q.own
	q.err.Store(nil)
}

func (q *queue) stop() {
	q.cache.Flush()
	q.tap = nil
}

// fail ends the queue for good. A queue without an interface is in a bad state:
// somebody removed it.
func (q *queue) fail(err error) {
	if errors.Is(err, unix.EBADFD) {
		err = fmt.Errorf("%w: somebody removed the interface", port.ErrGone)
		defer q.gone()
	}
	q.err.CompareAndSwap(nil, &err)
}

func (q *queue) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

// Err is nil, or why the queue has stopped: the interface is gone, say.
func (q *queue) Err() error {
	if err := q.err.Load(); err != nil {
		return *err
	}
	return nil
}
