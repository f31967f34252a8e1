package capture

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vionet/mbuf"
	"vionet/port"
)

// Config says what a Recorder takes.
type Config struct {
	WriterConfig
	// Sources are the interfaces that the file begins with, at least one; those of
	// other queues are added when their first packet comes.
	Sources []Source
	// Take says which queues are looked at; nil: all. Match says which of their
	// packets are taken, by the first segment of a packet of size bytes; nil: all.
	// Both are called from the goroutines that drive the queues.
	Take  func(Source) bool
	Match func(frame []byte, size int) bool
}

// Recorder copies packets as they pass a Tap and writes them to a file from a
// goroutine of its own. Those who drive queues never wait for it: when it is behind,
// packets are left out, and counted.
type Recorder struct {
	name  string
	cfg   Config
	file  *os.File
	out   *Writer
	clock Clock

	// mu is held for reading by those who copy, and for writing once, by Stop.
	mu      sync.RWMutex
	stopped bool

	free, full chan *block
	done       chan error // gets the outcome of writing

	written, dropped atomic.Uint64

	leftOutMu sync.Mutex
	leftOut   map[Source]uint64
}

// Record makes the file of that name and a Recorder for it, which is to be put on a
// Tap. The file is made anew and must be a regular one; it is open until Stop.
func Record(name string, cfg Config) (*Recorder, error) {
	r, err := newRecorder(name, cfg, blocks)
	if err != nil {
		return nil, err
	}
	go func() { r.done <- r.write() }()
	return r, nil
}

func newRecorder(name string, cfg Config, blocks int) (*Recorder, error) {
	var err error
	if cfg.WriterConfig, err = cfg.complete(cfg.Sources); err != nil {
		return nil, err // and an older file of that name stays
	}
	// A pipe that nobody reads must not hold anybody up.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		name: name, cfg: cfg, file: f, clock: NewClock(),
		free: make(chan *block, blocks), full: make(chan *block, blocks),
		done: make(chan error, 1), leftOut: map[Source]uint64{},
	}
	if r.out, err = r.open(); err != nil {
		f.Close()
		return nil, err
	}
	for range blocks {
		r.free <- newBlock()
	}
	return r, nil
}

func (r *Recorder) open() (*Writer, error) {
	info, err := r.file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("capture: %w: %s is not a regular file", port.ErrInvalid, r.name)
	}
	return NewWriter(r.file, r.cfg.WriterConfig, r.cfg.Sources...)
}

// Name is that of the file.
func (r *Recorder) Name() string { return r.name }

// Counts are the numbers of packets that are in the file by now, and of those that
// were left out since there was no time to write them, or no way to. Any goroutine
// may call it.
func (r *Recorder) Counts() (written, dropped uint64) { return r.written.Load(), r.dropped.Load() }

// enter keeps the recorder from ending until leave, and reports whether it looks at
// the queue. A queue that it does not look at leaves alone what the others share.
func (r *Recorder) enter(from Source) bool {
	if r.cfg.Take != nil && !r.cfg.Take(from) || !r.mu.TryRLock() {
		return false // not its queue, or it is just ending
	}
	if r.stopped {
		r.mu.RUnlock()
		return false
	}
	return true
}

func (r *Recorder) leave() { r.mu.RUnlock() }

// copies are the packets of a burst that were copied.
type copies struct {
	from Source
	last *block // with those before it; nil: none
	// missed packets could not be copied, the first of them at the place missedAt.
	missed, missedAt int
}

// copy copies packets of a burst. Once there is no free block, the rest of the burst
// is missed.
func (r *Recorder) copy(from Source, pkts []*mbuf.Buf) copies {
	c, now := copies{from: from}, r.clock.Now()
	for place, b := range pkts {
		switch {
		case r.cfg.Match != nil && !r.cfg.Match(b.Bytes(), b.PacketLen()):
		case c.missed > 0:
			c.missed++
		case c.last != nil && c.last.add(b, place, r.cfg.SnapLen):
		default:
			next := r.fresh(from, now)
			if next == nil {
				c.missed, c.missedAt = 1, place
				continue
			}
			next.add(b, place, r.cfg.SnapLen) // any packet fits into an empty block
			next.before, c.last = c.last, next
		}
	}
	return c
}

// keep has those copies written that stood at the front of the burst, n packets
// long, and forgets the others.
func (r *Recorder) keep(c copies, n int) {
	r.hand(c.last, n)
	if missed := min(c.missed, n-c.missedAt); missed > 0 {
		r.dropped.Add(uint64(missed))
		r.leftOutMu.Lock()
		r.leftOut[c.from] += uint64(missed)
		r.leftOutMu.Unlock()
	}
}

// fresh gives an empty block, or nil when all are on their way to the file.
func (r *Recorder) fresh(from Source, now time.Time) *block {
	select {
	case b := <-r.free:
		b.reset(from, now)
		return b
	default:
		return nil
	}
}

// hand passes a burst's blocks on, the first one first. There is room for all
// blocks in either channel.
func (r *Recorder) hand(b *block, n int) {
	if b == nil {
		return
	}
	r.hand(b.before, n)
	if b.cut(n); len(b.packets) > 0 {
		r.full <- b
	} else {
		r.free <- b
	}
}

// write writes blocks until there are no more, and what it has whenever there is
// a pause. After an error it only counts.
func (r *Recorder) write() error {
	var err error
	for b := range r.full {
		if err == nil {
			err = b.write(r.out)
		}
		if err == nil {
			r.written.Add(uint64(len(b.packets)))
		} else {
			r.dropped.Add(uint64(len(b.packets)))
		}
		r.free <- b
		if err == nil && len(r.full) == 0 {
			err = r.out.Flush()
		}
	}
	if err == nil {
		err = r.end()
	}
	return errors.Join(err, r.file.Close())
}

// end completes the file.
func (r *Recorder) end() error {
	for from, n := range r.leftOut { // nobody copies any more
		if err := r.out.LeftOut(from, n); err != nil {
			return err
		}
	}
	return r.out.Close()
}

// stopLimit is how long Stop waits for the disk.
const stopLimit = 10 * time.Second

// Stop writes what was copied to its end and closes the file. Take the recorder off
// its Tap before. A second call does nothing.
func (r *Recorder) Stop() error {
	r.mu.Lock() // nobody copies any more
	stopped := r.stopped
	r.stopped = true
	r.mu.Unlock()
	if stopped {
		return nil
	}
	close(r.full)
	select {
	case err := <-r.done:
		return err
	case <-time.After(stopLimit):
		return fmt.Errorf("capture: %s is not written to its end within %v: the disk does not answer", r.name, stopLimit)
	}
}
