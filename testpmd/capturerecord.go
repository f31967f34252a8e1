package testpmd

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"vionet/mbuf"
	"vionet/testpmd/engine"
)

// Sizes of what waits to be written.
const (
	captureBlocks  = 64
	captureSnap    = 65535 // bytes of a packet that are kept
	captureBytes   = captureSnap
	capturePackets = engine.MaxBurst // in a block
)

// captureBlock holds copies of packets of one burst, on their way to the file.
type captureBlock struct {
	source  captureSource
	at      time.Time
	data    []byte
	packets []capturedPacket
}

// capturedPacket is a packet in a block: its bytes end at end, and it was length
// bytes long.
type capturedPacket struct{ end, length int }

func (b *captureBlock) reset() { b.data, b.packets = b.data[:0], b.packets[:0] }

// add copies the packet, as far as it is kept, and reports whether there was room.
func (b *captureBlock) add(p *mbuf.Buf) bool {
	keep := min(p.PacketLen(), captureSnap)
	if len(b.packets) == cap(b.packets) || len(b.data)+keep > cap(b.data) {
		return false
	}
	for seg := p; seg != nil && keep > 0; seg = seg.Next() {
		piece := seg.Bytes()
		piece = piece[:min(len(piece), keep)]
		b.data = append(b.data, piece...)
		keep -= len(piece)
	}
	b.packets = append(b.packets, capturedPacket{len(b.data), p.PacketLen()})
	return true
}

// recorder copies packets as they pass and writes them to a file from a
// goroutine of its own. Those who forward never wait for it: when no block is
// free the packet is not captured, and counted.
type recorder struct {
	name string
	take selection
	file *captureFile

	// mu is held for reading by those who copy, and for writing once, by stop.
	mu      sync.RWMutex
	stopped bool

	free, full chan *captureBlock
	done       chan error // gets the outcome of writing

	written, dropped atomic.Uint64 // packets
}

// startRecorder opens the file. view is to be called from then on until stop.
func startRecorder(name string, take selection, sources []captureSource) (*recorder, error) {
	file, err := newCaptureFile(name, sources)
	if err != nil {
		return nil, err
	}
	r := &recorder{
		name: name, take: take, file: file,
		free: make(chan *captureBlock, captureBlocks), full: make(chan *captureBlock, captureBlocks),
		done: make(chan error, 1),
	}
	for range captureBlocks {
		r.free <- &captureBlock{data: make([]byte, 0, captureBytes), packets: make([]capturedPacket, 0, capturePackets)}
	}
	go func() { r.done <- r.write() }()
	return r, nil
}

// view is the recorder's engine.Viewer.
func (r *recorder) view(d engine.Direction, port, queue int, pkts []*mbuf.Buf) {
	if !r.take.wants(d, port) || !r.mu.TryRLock() {
		return
	}
	defer r.mu.RUnlock()
	if r.stopped {
		return
	}
	from, now := captureSource{d, port, queue}, time.Now()
	var block *captureBlock
	for _, b := range pkts {
		if !r.take.filter.Match(b.Bytes(), b.PacketLen()) {
			continue
		}
		if block != nil && block.add(b) {
			continue
		}
		r.hand(block)
		if block = r.fresh(from, now); block == nil || !block.add(b) {
			r.dropped.Add(1)
		}
	}
	r.hand(block)
}

// fresh gives an empty block, or nil when all are on their way to the file.
func (r *recorder) fresh(from captureSource, now time.Time) *captureBlock {
	select {
	case b := <-r.free:
		b.reset()
		b.source, b.at = from, now
		return b
	default:
		return nil
	}
}

// hand passes a block on. There is room for all blocks in either channel.
func (r *recorder) hand(b *captureBlock) {
	if b != nil {
		r.full <- b
	}
}

// write writes blocks until there are no more, and what it has whenever there is
// a pause. After an error it only counts.
func (r *recorder) write() error {
	var err error
	for b := range r.full {
		if err == nil {
			err = r.file.write(b)
		}
		if err == nil {
			r.written.Add(uint64(len(b.packets)))
		} else {
			r.dropped.Add(uint64(len(b.packets)))
		}
		r.free <- b
		if err == nil && len(r.full) == 0 {
			err = r.file.flush()
		}
	}
	if closed := r.file.close(); err == nil {
		err = closed
	}
	return err
}

// captureLimit is how long stop waits for the disk.
const captureLimit = 10 * time.Second

// stop writes what was captured to its end and closes the file.
func (r *recorder) stop() error {
	r.mu.Lock() // nobody copies any more
	r.stopped = true
	r.mu.Unlock()
	close(r.full)
	select {
	case err := <-r.done:
		return err
	case <-time.After(captureLimit):
		return fmt.Errorf("%s is not written to its end within %v: the disk does not answer", r.name, captureLimit)
	}
}

// text is what statistics say of the capture; nil: nothing.
func (r *recorder) text() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("  Capture to %s: %d packets, %d dropped\n", r.name, r.written.Load(), r.dropped.Load())
}
