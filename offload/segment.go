package offload

import (
	"errors"
	"slices"

	"vionet/mbuf"
)

// MaxSegments is the largest number of segments that a packet is cut into:
// what 64 KiB come to in segments of 128 bytes. A packet that asks for more is
// after the buffers, not after the segments.
const MaxSegments = 512

// Why a packet can't be cut.
var (
	// ErrRequest: its flags and lengths do not describe headers in its first
	// buffer, or ask for too many segments. It will never be cut.
	ErrRequest = errors.New("flags, lengths and headers of a packet to be segmented do not fit each other")
	// ErrNoBufs: there are too few buffers just now.
	ErrNoBufs = errors.New("too few buffers for the segments of a packet")
)

// Segmenter cuts packets that ask for TxTSO or TxUSO into segments. One
// goroutine owns it.
type Segmenter struct {
	segments []*mbuf.Buf
	bufs     []*mbuf.Buf
}

// Segment gives the packets that b stands for, in buffers from c, each with up
// to b.SegSize bytes of its payload. They belong to the caller and have no
// request but the VLAN tag of b: the checksums are filled in. Of the checksum
// requests in leave, the one that applies stays to be done by the port, and is
// asked for. The slice is good until the next call.
//
// The packet b still belongs to the caller, unchanged. An error is ErrRequest or
// ErrNoBufs, and there are no segments then.
func (s *Segmenter) Segment(b *mbuf.Buf, c *mbuf.Cache, leave mbuf.Flags) ([]*mbuf.Buf, error) {
	l, ok := readLarge(b)
	room := c.Pool().BufSize() - mbuf.Headroom
	if !ok || l.headers > room {
		return nil, ErrRequest
	}
	if !s.take(l, room, c) {
		return nil, ErrNoBufs
	}
	s.segments = s.segments[:0]
	bufs, from := s.bufs, source{seg: b}
	from.skip(l.headers)
	for i := range l.segments() {
		n := l.headers + l.length(i)
		used := buffers(n, room)
		seg := chain(bufs[:used], n, room, b.Bytes()[:l.headers], &from)
		bufs = bufs[used:]
		l.finish(seg, i, leave)
		s.segments = append(s.segments, seg)
	}
	return s.segments, nil
}

// take gets the buffers of all segments, or none.
func (s *Segmenter) take(l large, room int, c *mbuf.Cache) bool {
	last := l.segments() - 1
	need := last*buffers(l.headers+l.size, room) + buffers(l.headers+l.length(last), room)
	s.bufs = slices.Grow(s.bufs[:0], need)[:need]
	got := c.Get(s.bufs)
	if got < need {
		c.Put(s.bufs[:got])
	}
	return got == need
}

// buffers is the number of buffers with room bytes each that hold n bytes.
func buffers(n, room int) int { return (n + room - 1) / room }

// chain makes a packet of n bytes out of bufs: the headers, and the payload that
// comes next.
func chain(bufs []*mbuf.Buf, n, room int, headers []byte, from *source) *mbuf.Buf {
	head := bufs[0]
	data := head.Renew(min(n, room))
	from.read(data[copy(data, headers):])
	for i, next := range bufs[1:] {
		n -= room
		from.read(next.Renew(min(n, room)))
		head.Link(bufs[i], next)
	}
	return head
}

// source reads the bytes of a packet one after the other.
type source struct {
	seg *mbuf.Buf
	at  int // in seg
}

// skip leaves out n bytes, which lie in this buffer.
func (s *source) skip(n int) { s.at += n }

// read fills dst, for which there are enough bytes.
func (s *source) read(dst []byte) {
	for len(dst) > 0 {
		n := copy(dst, s.seg.Bytes()[s.at:])
		dst = dst[n:]
		if s.at += n; s.at == s.seg.Len() {
			s.seg, s.at = s.seg.Next(), 0
		}
	}
}
