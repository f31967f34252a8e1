package driveronly

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"vionet/ring"
	"vionet/vhost"
	"vionet/virtio"
)

// BackendCommand is the name of the subcommand that runs Serve.
const BackendCommand = "driver-backend"

// takes is how many chains the back end takes at a time.
const takes = 1024

// received is what the back end says that it wrote: a header and a frame.
const received = virtio.NetHeaderSize + frameLen

// primed is how many buffers of a receive queue get a header before the back end
// touches nothing any more: enough that all that are in use have one.
const primed = 1 << 20

// Serve is the back end: it listens on socket, with that many queue pairs, and gives
// back at once whatever it is given. For each line that it reads from in it writes what
// it did so far to out, as lookAnswer has it. It returns when in ends.
func Serve(socket string, pairs int, in io.Reader, out io.Writer) error {
	b, err := vhost.Listen(socket, vhost.BackendConfig{Pairs: pairs, Packed: true})
	if err != nil {
		return err
	}
	defer b.Close()
	// The one loop does not wait for a turn beside the console, nor that for the loop.
	runtime.GOMAXPROCS(3)
	s := newSink(b)
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer s.stop.Store(true)
	go func() {
		defer close(ended)
		s.run()
	}()
	fmt.Fprint(out, prompt)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintf(out, "completed %d idle %d first %d\n%s", s.completed.Load(), s.idle.Load(), s.first.Load(), prompt)
	}
	return nil
}

// prompt ends what is written, as that of a console.
const prompt = "testpmd> "

// sink is the loop of the back end.
type sink struct {
	queues []*sinkQueue
	stop   atomic.Bool

	completed atomic.Uint64 // chains
	idle      atomic.Int64  // nanoseconds in which there was nothing to do
	first     atomic.Int64  // when the first was completed, see monotonic; 0: none was
}

func newSink(b *vhost.Backend) *sink {
	s := &sink{}
	for i := range b.Pairs() {
		s.queues = append(s.queues,
			&sinkQueue{queue: b.TxQueue(i)},
			&sinkQueue{queue: b.RxQueue(i), length: received, fresh: primed})
	}
	return s
}

// pass gives back what waits in all queues, and returns how many chains.
func (s *sink) pass() (n int) {
	for _, q := range s.queues {
		if q.queue.Drive(q.work) {
			n += q.done()
		}
	}
	return n
}

func (s *sink) run() {
	runtime.LockOSThread()
	var since time.Time // when it ran out of work; zero while there is some
	for !s.stop.Load() {
		n := s.pass()
		switch {
		case n > 0 && !since.IsZero():
			s.idle.Store(s.idle.Load() + int64(time.Since(since)))
			since = time.Time{}
		case n == 0 && since.IsZero():
			since = time.Now()
		}
		if n > 0 {
			if s.first.Load() == 0 {
				s.first.Store(int64(monotonic()))
			}
			s.completed.Store(s.completed.Load() + uint64(n))
		}
	}
}

// sinkQueue completes the chains of one queue.
type sinkQueue struct {
	queue  *vhost.Queue
	length uint32 // to be said of each
	fresh  int    // buffers that get a header yet
	moved  int

	chains [takes]ring.Chain
	pieces [2 * takes]ring.Piece
	used   [takes]ring.Completion
}

// done gives the chains of the last work.
func (q *sinkQueue) done() (n int) {
	n, q.moved = q.moved, 0
	return n
}

func (q *sinkQueue) work(r ring.Device) {
	r.Notify(false) // it polls: a notification costs more than a burst
	n := r.Take(q.chains[:], q.pieces[:])
	if n == 0 {
		return
	}
	if q.fresh > 0 {
		q.prime(n)
	}
	for i, c := range q.chains[:n] {
		q.used[i] = ring.Completion{Head: c.Head, Len: q.length}
	}
	r.Complete(q.used[:n])
	q.moved = n
}

// prime puts the header of a packet of one buffer into the first n pieces: a driver
// with mergeable buffers reads it.
func (q *sinkQueue) prime(n int) {
	hdr := virtio.NetHeader{NumBuffers: 1}
	for _, p := range q.pieces[:n] {
		if b := q.queue.Reach(p.Addr, virtio.NetHeaderSize); b != nil {
			hdr.Encode(b)
		}
	}
	q.fresh -= n
}
