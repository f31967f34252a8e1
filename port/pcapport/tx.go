package pcapport

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"vionet/mbuf"
	"vionet/port"
)

// writeBuffer is the size in bytes of the pieces in which files are written.
const writeBuffer = 256 << 10

// txQueue writes what it is given to a file, and frees it.
type txQueue struct {
	name  string // of the file; "": none
	own   *mbuf.Cache
	cache *mbuf.Cache

	file   *os.File // nil: none, or not made yet
	out    *bufio.Writer
	writer *pcapgo.Writer
	frame  []byte // scratch for frames of several segments
	err    atomic.Pointer[error]

	packets, bytes, errors atomic.Uint64
}

// start makes the file when it is called first; later frames are appended.
func (q *txQueue) start(pool *mbuf.Pool) error {
	q.own = pool.NewCache(0)
	q.cache = q.own
	if q.name == "" || q.file != nil {
		return nil
	}
	f, err := os.Create(q.name)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, writeBuffer)
	w := pcapgo.NewWriterNanos(out)
	if err := errors.Join(w.WriteFileHeader(maxFrame, layers.LinkTypeEthernet), out.Flush()); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", q.name, err)
	}
	q.file, q.out, q.writer, q.frame = f, out, w, make([]byte, 0, maxFrame)
	return nil
}

func (q *txQueue) stop() error {
	q.cache.Flush()
	q.Reclaim()
	return q.Err()
}

func (q *txQueue) close() error {
	if q.file == nil {
		return nil
	}
	err := q.file.Close()
	q.file = nil
	return err
}

func (q *txQueue) Burst(bufs []*mbuf.Buf) int {
	now := time.Now()
	n, size := 0, 0
	for _, b := range bufs {
		if b.Flags&(mbuf.TxL4Mask|mbuf.TxVLAN) == 0 && b.PacketLen() <= maxFrame && q.write(now, b) {
			n++
			size += b.PacketLen()
		}
	}
	q.cache.Put(bufs)
	q.packets.Add(uint64(n))
	q.bytes.Add(uint64(size))
	if n < len(bufs) {
		q.errors.Add(uint64(len(bufs) - n))
	}
	return len(bufs)
}

// write writes a frame and reports whether that went well.
func (q *txQueue) write(now time.Time, b *mbuf.Buf) bool {
	if q.writer == nil {
		return true
	}
	if q.err.Load() != nil {
		return false
	}
	frame := b.Bytes()
	if b.Next() != nil {
		frame = q.frame
		for seg := b; seg != nil; seg = seg.Next() {
			frame = append(frame, seg.Bytes()...)
		}
	}
	return q.check(q.writer.WritePacket(gopacket.CaptureInfo{Timestamp: now, CaptureLength: len(frame), Length: len(frame)}, frame))
}

// check keeps the first error, and reports whether there is none.
func (q *txQueue) check(err error) bool {
	if err != nil {
		err = fmt.Errorf("write %s: %w", q.name, err)
		q.err.CompareAndSwap(nil, &err)
	}
	return err == nil
}

// Reclaim brings what was sent into the file. Nothing waits to be freed.
func (q *txQueue) Reclaim() int {
	if q.out != nil && q.out.Buffered() > 0 {
		q.check(q.out.Flush())
	}
	return 0
}

func (q *txQueue) UseCache(c *mbuf.Cache) {
	q.own.Flush()
	q.cache = c
}

// Err is nil, or why the file takes no more.
func (q *txQueue) Err() error {
	if err := q.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (q *txQueue) stats() port.QueueStats {
	return port.QueueStats{Packets: q.packets.Load(), Bytes: q.bytes.Load(), Errors: q.errors.Load()}
}

func (q *txQueue) reset() {
	q.packets.Store(0)
	q.bytes.Store(0)
	q.errors.Store(0)
}
